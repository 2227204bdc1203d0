// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const (
	// reviewTimeout limits the time of a review by the API server.
	reviewTimeout = 5 * time.Second
	// reviewQPS and reviewBurst limit the requests to the API server that unauthorized clients
	// can cause, in requests a second. The component's own requests do not share them.
	reviewQPS, reviewBurst = 5, 10
	// allowedFor is how long an allowed client is not reviewed again; maxAllowed limits these
	// clients.
	allowedFor = time.Minute
	maxAllowed = 64
)

// SecureFlags are the flags to serve probes and metrics over TLS. Their names are those of
// Kubernetes' components, where these have them.
type SecureFlags struct {
	Enabled           bool
	CertFile, KeyFile string
}

// Add adds the flags.
func (f *SecureFlags) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Enabled, "secure-metrics", false, "serve probes and metrics over TLS, and metrics only to clients that the API server authenticates and allows to get /metrics")
	flags.StringVar(&f.CertFile, "tls-cert-file", "", "with --secure-metrics: PEM file with the certificate, reloaded when it changes; without it the process creates a self-signed certificate")
	flags.StringVar(&f.KeyFile, "tls-private-key-file", "", "with --secure-metrics: PEM file with the private key of --tls-cert-file")
}

// Secure returns the configuration of the flags; nil without --secure-metrics. connection is
// that of the component; it is not changed.
func (f *SecureFlags) Secure(connection *rest.Config) (*Secure, error) {
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file: must be given together")
	}
	if !f.Enabled {
		if f.CertFile != "" {
			return nil, errors.New("--tls-cert-file: must not be given without --secure-metrics")
		}
		return nil, nil // plain HTTP
	}
	connection = rest.CopyConfig(connection)
	connection.QPS, connection.Burst, connection.RateLimiter = reviewQPS, reviewBurst, nil
	tokens, err := newReviews(connection, "tokenreviews", authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme,
		func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} })
	if err != nil {
		return nil, err
	}
	accesses, err := newReviews(connection, "subjectaccessreviews", authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme,
		func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} })
	if err != nil {
		return nil, err
	}
	return &Secure{tokens: tokens, accesses: accesses, certFile: f.CertFile, keyFile: f.KeyFile}, nil
}

// reviews creates reviews of type T.
type reviews[T any] interface {
	Create(ctx context.Context, review T, o metav1.CreateOptions) (T, error)
}

// newReviews returns a client of one kind. client-go's has all kinds, which use memory on every
// node.
func newReviews[T interface {
	runtime.Object
	metav1.Object
}](connection *rest.Config, resource string, version schema.GroupVersion, add func(*runtime.Scheme) error, empty func() T) (reviews[T], error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", resource, err)
	}
	connection = rest.CopyConfig(connection)
	connection.GroupVersion, connection.APIPath = &version, "/apis"
	connection.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(connection)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", resource, err)
	}
	return gentype.NewClient(resource, client, runtime.NewParameterCodec(scheme), "", empty), nil
}

// Secure serves probes and metrics over TLS like kube-scheduler: probes to any client, metrics
// to clients whose bearer token the API server authenticates (TokenReview) and allows to get
// /metrics (SubjectAccessReview). It does not use the authenticators of k8s.io/apiserver,
// because cel-go, grpc and OpenTelemetry would use memory on every node.
type Secure struct {
	// The component needs ClusterRole system:auth-delegator for the reviews.
	tokens   reviews[*authenticationv1.TokenReview]
	accesses reviews[*authorizationv1.SubjectAccessReview]
	// certFile and keyFile are PEM files, reloaded when they change. Empty: a self-signed
	// certificate of this process.
	certFile, keyFile string
}

// serve serves until ctx ends.
func (s *Secure) serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	protocols := []string{"http/1.1"} // one request at a time for each connection
	server.Protocols = &http.Protocols{}
	server.Protocols.SetHTTP1(true)
	if s.certFile != "" {
		return serveTLS(ctx, server, listener, tlsFiles{cert: s.certFile, key: s.keyFile, protocols: protocols})
	}
	made, err := selfSigned()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{made}}
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx).V(4)), slog.LevelInfo)
	return untilDone(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

func selfSigned() (tls.Certificate, error) {
	host, err := os.Hostname()
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("get the host name: %w", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	made, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the generated certificate: %w", err)
	}
	return made, nil
}

// authorized handles only requests of clients that may get /metrics.
func (s *Secure) authorized(next http.Handler) http.Handler {
	allowed := cache.NewLRUExpireCache(maxAllowed) // by the hash of the token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		key := sha256.Sum256([]byte(token))
		if _, ok := allowed.Get(key); !ok {
			ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
			defer cancel()
			refused, err := s.review(ctx, token)
			if err != nil {
				klog.FromContext(ctx).V(4).Info("Failed to review a scrape", "err", err)
				http.Error(w, "the API server could not authenticate the token", http.StatusServiceUnavailable)
				return
			}
			if refused != nil {
				http.Error(w, refused.reason, refused.status)
				return
			}
			allowed.Add(key, nil, allowedFor)
		}
		next.ServeHTTP(w, r)
	})
}

// refusal is why a client must not scrape.
type refusal struct {
	status int
	reason string
}

// review authenticates a token and authorizes its owner; nil if the owner may scrape.
func (s *Secure) review(ctx context.Context, token string) (*refusal, error) {
	who, err := s.tokens.Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return &refusal{http.StatusUnauthorized, "the API server does not know this token"}, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	access, err := s.accesses.Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a SubjectAccessReview: %w", err)
	}
	if !access.Status.Allowed {
		return &refusal{http.StatusForbidden, fmt.Sprintf("user %q may not get /metrics: ClusterRole stowage-metrics-reader lets it", user.Username)}, nil
	}
	return nil, nil // it may
}
