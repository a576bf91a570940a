package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"mainstay.example.com/e2e/site-operator/api"
)

// serving is a certificate of its own authority in a folder, and the port that the webhooks get.
type serving struct {
	folder    string
	port      int
	authority []byte
}

// newServing makes the certificate and finds a free port.
func newServing() (*serving, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "site-operator-")
	if err != nil {
		return nil, err
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	servingKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := func(name string, serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		}
	}
	authority := template("site-operator-ca", 1)
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return nil, err
	}
	leaf := template("site-operator", 2)
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &servingKey.PublicKey, authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(servingKey)
	if err != nil {
		return nil, err
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for file, data := range map[string][]byte{"tls.crt": encode("CERTIFICATE", leafDER), "tls.key": encode("EC PRIVATE KEY", keyDER)} {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			return nil, err
		}
	}
	return &serving{folder: folder, port: port, authority: encode("CERTIFICATE", authorityDER)}, nil
}

// register serves the webhooks and, once they answer, tells the cluster where they are.
func (s *serving) register(manager ctrl.Manager) error {
	if err := ctrl.NewWebhookManagedBy(manager, &api.Site{}).WithDefaulter(&rules{}).WithValidator(&rules{}).Complete(); err != nil {
		return err
	}
	return manager.Add(&registrar{serving: s, client: manager.GetClient(), started: manager.GetWebhookServer().StartedChecker()})
}

// registrar writes the webhook configurations when the server listens; not only on the leader.
type registrar struct {
	*serving
	client  client.Client
	started func(*http.Request) error
}

func (*registrar) NeedLeaderElection() bool { return false }

func (r *registrar) Start(ctx context.Context) error {
	for r.started(nil) != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, configuration := range []client.Object{r.mutating(), r.validating()} {
		if err := r.client.Create(ctx, configuration); err != nil {
			return err
		}
	}
	conversion := map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []string{"v1"},
			"clientConfig":             map[string]any{"url": *r.url("/convert"), "caBundle": r.authority},
		},
	}}}
	patch, err := json.Marshal(conversion)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("sites." + api.Group)
	if err := r.client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	ctrl.Log.Info("webhooks are registered", "port", r.port)
	return nil
}

func (r *registrar) url(path string) *string {
	url := fmt.Sprintf("https://127.0.0.1:%d%s", r.port, path)
	return &url
}

func (r *registrar) clientConfig(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{URL: r.url(path), CABundle: r.authority}
}

func siteRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{"v1"}, Resources: []string{"sites"}},
	}}
}

func (r *registrar) mutating() client.Object {
	none := admissionv1.SideEffectClassNone
	configuration := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{
		Name: "default.sites.example.com", ClientConfig: r.clientConfig("/mutate-sites-example-com-v1-site"),
		Rules: siteRules(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	configuration.Name = "site-operator"
	return configuration
}

func (r *registrar) validating() client.Object {
	none := admissionv1.SideEffectClassNone
	configuration := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "check.sites.example.com", ClientConfig: r.clientConfig("/validate-sites-example-com-v1-site"),
		Rules: siteRules(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	configuration.Name = "site-operator"
	return configuration
}

// rules are what the webhooks say about sites.
type rules struct{}

// Default gives a site two replicas.
func (*rules) Default(_ context.Context, site *api.Site) error {
	if site.Spec.Replicas == nil {
		two := int32(2)
		site.Spec.Replicas = &two
	}
	return nil
}

func (*rules) ValidateCreate(_ context.Context, site *api.Site) (admission.Warnings, error) {
	return judge(site)
}

func (*rules) ValidateUpdate(_ context.Context, _, site *api.Site) (admission.Warnings, error) {
	return judge(site)
}

func (*rules) ValidateDelete(context.Context, *api.Site) (admission.Warnings, error) {
	return nil, nil
}

// judge refuses images without a tag and warns of those that move.
func judge(site *api.Site) (admission.Warnings, error) {
	name := site.Spec.Image[strings.LastIndex(site.Spec.Image, "/")+1:]
	if !strings.Contains(name, ":") {
		return nil, fmt.Errorf("image %q has no tag", site.Spec.Image)
	}
	if strings.HasSuffix(name, ":latest") {
		return admission.Warnings{"the tag latest moves"}, nil
	}
	return nil, nil
}
