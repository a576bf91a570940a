// Package etcd names the store of the kube-apiserver that Mainstay is compared with: watch lists need a newer one than Debian's.
package etcd

import _ "go.etcd.io/etcd/server/v3/etcdmain"
