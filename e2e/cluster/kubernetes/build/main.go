// SPDX-License-Identifier: Apache-2.0

// Command kube is Kubernetes' control plane and node agent in one executable, which acts as the one whose name
// it is called by. They share nearly all their packages, so linking them once instead of four times
// saves minutes of a cold build and 250 MB.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kubectl" {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return
	}
	command := serverCommand(name)
	if command == nil {
		fmt.Fprintf(os.Stderr, "cannot act as %q: call me by the name of a Kubernetes program\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

func serverCommand(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubeletCommand()
	}
	return nil
}

// kubeletCommand works with every release: the kubelet's takes a context since 1.34.
func kubeletCommand() *cobra.Command {
	switch create := any(kubelet.NewKubeletCommand).(type) {
	case func() *cobra.Command:
		return create()
	case func(context.Context) *cobra.Command:
		return create(context.Background())
	default:
		panic(fmt.Sprintf("cannot create the kubelet's command with a %T", create))
	}
}
