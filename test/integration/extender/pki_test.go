// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// serverName is the extender's in the shipped configuration of the scheduler.
const serverName = "stowage-extender.kube-system.svc"

// clientName is the scheduler's.
const clientName = "system:kube-scheduler"

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// pem is the authority's certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a certificate for both ends of a connection, until the time given.
func (a *authority) issue(name string, until time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{serverName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), err
}

// certificates are the files of a deployment.
type certificates struct {
	dir       string
	authority *authority
}

func (c certificates) path(name string) string { return filepath.Join(c.dir, name) }

func newCertificates() (certificates, error) {
	dir, err := os.MkdirTemp("", "stowage-extender-")
	if err != nil {
		return certificates{}, err
	}
	a, err := newAuthority("stowage-extender-test")
	if err != nil {
		return certificates{}, err
	}
	c := certificates{dir, a}
	until := time.Now().Add(time.Hour)
	return c, errors.Join(
		os.WriteFile(c.path("ca.crt"), a.pem(), 0o600),
		c.write("tls", serverName, until),
		c.write("client", clientName, until),
	)
}

// write issues a certificate into NAME.crt and NAME.key. Each file is exchanged at
// once, as by kubelet.
func (c certificates) write(file, name string, until time.Time) error {
	cert, key, err := c.authority.issue(name, until)
	if err != nil {
		return err
	}
	return errors.Join(exchange(c.path(file+".key"), key), exchange(c.path(file+".crt"), cert))
}

func exchange(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
