// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// certLifetime is the validity of certificates; clusters run for hours at most.
const certLifetime = 7 * 24 * time.Hour

// authority is the cluster's certificate authority. Safe for concurrent use.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// keyPair is a certificate and its private key, PEM encoded.
type keyPair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "stowage-test-cluster-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{key: key, cert: cert, pem: pemCert(der)}, nil
}

// client issues a certificate that the API server takes as user in groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := certTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a server with DNS names and IP addresses.
func (a *authority) server(name string, hosts ...string) (keyPair, error) {
	template := certTemplate(pkix.Name{CommonName: name})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue a certificate for %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := pemKey(key)
	return keyPair{cert: pemCert(der), key: keyPEM}, err
}

// certTemplate is valid from an hour ago, so that clocks may differ a little.
func certTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certLifetime),
	}
}

// newSigningKey makes the key that service account tokens are signed with.
func newSigningKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return pemKey(key)
}

func pemCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pemKey encodes in SEC 1 form, which all components read.
func pemKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writePKI makes the certificates and keys that the components' flags name.
// address is the API server's.
func writePKI(f folder, address string) (*authority, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	// This authority's key is discarded: no proxy authenticates for other users. The
	// components that request the authority from the API server log errors without one.
	proxies, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority for proxies: %w", err)
	}
	server, err := ca.server("127.0.0.1", loopback, address, serviceIP,
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return nil, err
	}
	kubelets, err := ca.client("kube-apiserver", adminGroup)
	if err != nil {
		return nil, err
	}
	signing, err := newSigningKey()
	if err != nil {
		return nil, fmt.Errorf("make the service account signing key: %w", err)
	}
	for path, data := range map[string][]byte{
		f.caCert():            ca.pem,
		f.proxyCACert():       proxies.pem,
		f.serverCert():        server.cert,
		f.serverKey():         server.key,
		f.kubeletClientCert(): kubelets.cert,
		f.kubeletClientKey():  kubelets.key,
		f.serviceAccountKey(): signing,
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}
