// Package api holds the operator's kind: a Site is a web server that runs an image. v1 is stored; v1alpha1 calls the replicas a size.
package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// Group of the kind.
const Group = "sites.example.com"

// Sizes of v1alpha1, and the replicas that they mean in v1.
var sizes = map[string]int32{"small": 1, "medium": 2, "large": 3}

// SiteSpec says what should run.
type SiteSpec struct {
	Image    string `json:"image"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// SiteStatus says what runs, and which instance of the operator saw it.
type SiteStatus struct {
	ReadyReplicas int32              `json:"readyReplicas"`
	ReconciledBy  string             `json:"reconciledBy,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

// Site in the stored version.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec"`
	Status            SiteStatus `json:"status,omitzero"`
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// AlphaSpec is the older form of SiteSpec.
type AlphaSpec struct {
	Image string `json:"image"`
	Size  string `json:"size,omitempty"`
}

// AlphaSite is a Site in version v1alpha1.
type AlphaSite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              AlphaSpec  `json:"spec"`
	Status            SiteStatus `json:"status,omitzero"`
}

// AddToScheme makes both versions known.
func AddToScheme(scheme *runtime.Scheme) error {
	v1 := schema.GroupVersion{Group: Group, Version: "v1"}
	scheme.AddKnownTypes(v1, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, v1)
	alpha := schema.GroupVersion{Group: Group, Version: "v1alpha1"}
	scheme.AddKnownTypeWithName(alpha.WithKind("Site"), &AlphaSite{})
	metav1.AddToGroupVersion(scheme, alpha)
	return nil
}

// Hub marks the version that others convert through.
func (*Site) Hub() {}

// ConvertTo writes the stored version.
func (from *AlphaSite) ConvertTo(hub conversion.Hub) error {
	to := hub.(*Site)
	to.ObjectMeta = *from.ObjectMeta.DeepCopy()
	to.Spec.Image = from.Spec.Image
	from.Status.DeepCopyInto(&to.Status)
	if from.Spec.Size == "" {
		return nil
	}
	replicas, known := sizes[from.Spec.Size]
	if !known {
		return fmt.Errorf("size %q is none of small, medium and large", from.Spec.Size)
	}
	to.Spec.Replicas = &replicas
	return nil
}

// ConvertFrom reads the stored version.
func (to *AlphaSite) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Site)
	to.ObjectMeta = *from.ObjectMeta.DeepCopy()
	to.Spec = AlphaSpec{Image: from.Spec.Image}
	from.Status.DeepCopyInto(&to.Status)
	if from.Spec.Replicas == nil {
		return nil
	}
	to.Spec.Size = "large"
	for size, replicas := range sizes {
		if replicas == *from.Spec.Replicas {
			to.Spec.Size = size
		}
	}
	return nil
}

// DeepCopyInto copies a status.
func (from *SiteStatus) DeepCopyInto(to *SiteStatus) {
	*to = *from
	to.Conditions = nil
	for _, condition := range from.Conditions {
		to.Conditions = append(to.Conditions, *condition.DeepCopy())
	}
}

// DeepCopyObject copies a site.
func (from *Site) DeepCopyObject() runtime.Object {
	to := &Site{TypeMeta: from.TypeMeta, ObjectMeta: *from.ObjectMeta.DeepCopy(), Spec: from.Spec}
	if from.Spec.Replicas != nil {
		replicas := *from.Spec.Replicas
		to.Spec.Replicas = &replicas
	}
	from.Status.DeepCopyInto(&to.Status)
	return to
}

// DeepCopyObject copies a list.
func (from *SiteList) DeepCopyObject() runtime.Object {
	to := &SiteList{TypeMeta: from.TypeMeta, ListMeta: *from.ListMeta.DeepCopy()}
	for index := range from.Items {
		to.Items = append(to.Items, *from.Items[index].DeepCopyObject().(*Site))
	}
	return to
}

// DeepCopyObject copies a site.
func (from *AlphaSite) DeepCopyObject() runtime.Object {
	to := &AlphaSite{TypeMeta: from.TypeMeta, ObjectMeta: *from.ObjectMeta.DeepCopy(), Spec: from.Spec}
	from.Status.DeepCopyInto(&to.Status)
	return to
}
