// Package nodes names the program that simulates the nodes of a whole cluster of upstream's programs; nothing of it is compiled into ours.
package nodes

import _ "sigs.k8s.io/kwok/pkg/kwok/cmd"
