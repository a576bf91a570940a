// Package beside names the program that Mainstay is measured beside; nothing of it is compiled into ours.
package beside

import _ "k8s.io/kubernetes/cmd/kube-apiserver/app"
