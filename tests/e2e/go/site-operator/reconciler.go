package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mainstay.example.com/e2e/site-operator/api"
)

// finalizer holds a Site until its farewell is written.
const finalizer = "sites.example.com/farewell"

// reconciler makes a Deployment for each Site.
type reconciler struct {
	client.Client
	name string
}

func (r *reconciler) register(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&api.Site{}).Owns(&appsv1.Deployment{}).Complete(r)
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &api.Site{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.farewell(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment, err := r.deploy(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, site, deployment)
}

// farewell writes what remains of a Site, then lets it go.
func (r *reconciler) farewell(ctx context.Context, site *api.Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	note := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "farewell-" + site.Name, Namespace: site.Namespace},
		Data:       map[string]string{"image": site.Spec.Image, "by": r.name},
	}
	if err := r.Create(ctx, note); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	controllerutil.RemoveFinalizer(site, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, site))
}

// deploy creates the Deployment of a Site, or brings it back to what the Site says.
func (r *reconciler) deploy(ctx context.Context, site *api.Site) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		deployment.Spec.Replicas = site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		containers := deployment.Spec.Template.Spec.Containers
		if len(containers) == 0 {
			containers = []corev1.Container{{Name: "site"}}
		}
		containers[0].Image = site.Spec.Image
		deployment.Spec.Template.Spec.Containers = containers
		return controllerutil.SetControllerReference(site, deployment, r.Scheme())
	})
	return deployment, err
}

// report writes the status by a patch that fails when the Site was changed meanwhile.
func (r *reconciler) report(ctx context.Context, site *api.Site, deployment *appsv1.Deployment) error {
	before := site.DeepCopyObject().(*api.Site)
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	available := metav1.Condition{
		Type: "Available", Status: metav1.ConditionFalse, Reason: "Starting", ObservedGeneration: site.Generation,
		Message: fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, wanted),
	}
	if deployment.Status.ObservedGeneration == deployment.Generation && deployment.Status.ReadyReplicas == wanted {
		available.Status, available.Reason = metav1.ConditionTrue, "Running"
	}
	meta.SetStatusCondition(&site.Status.Conditions, available)
	site.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	site.Status.ReconciledBy = r.name
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if data, err := patch.Data(site); err != nil || len(data) == 0 || string(data) == "{}" {
		return err
	}
	return r.Status().Patch(ctx, site, patch)
}
