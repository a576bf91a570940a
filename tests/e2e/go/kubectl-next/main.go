// Command kubectl-next is the kubectl of this module's Kubernetes release, for machines whose own is older than what the tests want to see.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
