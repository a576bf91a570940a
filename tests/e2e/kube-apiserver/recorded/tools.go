// Package recorded names the kube-apiserver that the shared recordings were made with, emulating 1.34: what random requests are compared with.
package recorded

import _ "k8s.io/kubernetes/cmd/kube-apiserver/app"
