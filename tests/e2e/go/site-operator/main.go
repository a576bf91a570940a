// Command site-operator is an operator as many are: built with controller-runtime, it keeps a Deployment for each Site, sets conditions,
// cleans up behind a finalizer, elects a leader, and serves webhooks. The end-to-end tests run it as a process against `mainstay up`.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"mainstay.example.com/e2e/site-operator/api"
)

func main() {
	name := flag.String("name", "operator", "the name of this instance, for the status of what it reconciles")
	namespace := flag.String("namespace", "default", "where the leader's Lease is")
	webhooks := flag.Bool("webhooks", false, "serve webhooks and register them")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*name, *namespace, *webhooks); err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

func run(name, namespace string, webhooks bool) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &contentTypes{next: next, log: ctrl.Log.WithName("content")}
	})
	// Long enough for a server that is started again; whoever ends releases the Lease anyway.
	lease, renew, retry := 30*time.Second, 25*time.Second, 500*time.Millisecond
	options := ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "site-operator",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	}
	var hooks *serving
	if webhooks {
		if hooks, err = newServing(); err != nil {
			return err
		}
		defer os.RemoveAll(hooks.folder)
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: hooks.port, CertDir: hooks.folder})
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	if err := (&reconciler{Client: manager.GetClient(), name: name}).register(manager); err != nil {
		return err
	}
	if hooks != nil {
		if err := hooks.register(manager); err != nil {
			return fmt.Errorf("webhooks: %w", err)
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// contentTypes logs, once for each combination, in which forms requests and answers went over the wire.
type contentTypes struct {
	next http.RoundTripper
	log  logr.Logger
	seen sync.Map
}

func (c *contentTypes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(path) < 3 {
		return response, nil
	}
	resource := path[len(path)-1]
	for index, part := range path {
		if part == "namespaces" && index+2 < len(path) {
			resource = path[index+2]
		}
	}
	verb := request.Method
	if request.URL.Query().Has("watch") {
		verb = "WATCH"
	}
	sent, got := request.Header.Get("Content-Type"), response.Header.Get("Content-Type")
	if _, known := c.seen.LoadOrStore(strings.Join([]string{verb, resource, sent, got}, " "), true); !known {
		c.log.Info("exchanged", "verb", verb, "resource", resource, "sent", sent, "got", got, "status", response.StatusCode)
	}
	return response, nil
}
