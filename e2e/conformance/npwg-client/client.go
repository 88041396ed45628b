// Reads a Pod as JSON, and prints what the client library of the Network Plumbing Working Group reads of its
// annotations.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
)

func main() {
	var pod corev1.Pod
	check(json.NewDecoder(os.Stdin).Decode(&pod))
	networks, err := utils.ParsePodNetworkAnnotation(&pod)
	check(err)
	status, err := utils.GetNetworkStatus(&pod)
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"networks": networks, "status": status}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
