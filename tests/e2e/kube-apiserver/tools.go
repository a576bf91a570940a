// Package beside names the programs that Mainstay is measured beside, and tested against; nothing of them is compiled into ours.
package beside

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)
