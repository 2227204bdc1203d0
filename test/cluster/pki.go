// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

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
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "stowage-test-cluster-ca", NotBefore: notBefore()}, key)
	if err != nil {
		return nil, err
	}
	pem, err := cert.EncodeCertificates(ca)
	return &authority{key: key, cert: ca, pem: pem}, err
}

// notBefore is when certificates become valid: an hour ago, so that clocks may differ a little.
func notBefore() time.Time { return time.Now().Add(-time.Hour) }

// client issues a certificate that the API server takes as user in groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for a server with DNS names and IP addresses.
func (a *authority) server(name string, hosts ...string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

// issue completes and signs a certificate; crypto/x509 chooses its serial number.
func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore, template.NotAfter = notBefore(), a.cert.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue a certificate for %q: %w", template.Subject.CommonName, err)
	}
	certPEM, err := cert.EncodeCertificates(&x509.Certificate{Raw: der})
	if err != nil {
		return keyPair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return keyPair{cert: certPEM, key: keyPEM}, err
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
	signing, err := keyutil.MakeEllipticPrivateKeyPEM()
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
