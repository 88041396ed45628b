// SPDX-License-Identifier: Apache-2.0

// Command cri calls a container runtime as the kubelet does, and fills CRI-O's image store without a
// registry. It is built as a command of CRI-O's own module, with the versions that this one pins.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/containers/image/v5/copy"
	"github.com/containers/image/v5/docker/archive"
	"github.com/containers/image/v5/signature"
	imagestorage "github.com/containers/image/v5/storage"
	"github.com/containers/storage"
	"github.com/containers/storage/pkg/reexec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const usage = `usage: cri call SOCKET METHOD <REQUEST   a method of the RuntimeService; request and response are JSON
       cri load GRAPHROOT RUNROOT ARCHIVE  the images of "docker save" into the store
`

func main() {
	if reexec.Init() {
		return
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "call":
		return call(ctx, args[1], args[2])
	case len(args) == 4 && args[0] == "load":
		return load(ctx, args[1], args[2], args[3])
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

func call(ctx context.Context, socket, name string) error {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("unix://"+socket, credentials)
	if err != nil {
		return err
	}
	defer connection.Close()
	method := reflect.ValueOf(cri.NewRuntimeServiceClient(connection)).MethodByName(name)
	if !method.IsValid() {
		return fmt.Errorf("the RuntimeService has no method %q", name)
	}
	// func(context.Context, *Request, ...grpc.CallOption) (*Response, error)
	request := reflect.New(method.Type().In(1).Elem())
	if err := json.NewDecoder(os.Stdin).Decode(request.Interface()); err != nil {
		return fmt.Errorf("cannot read the request: %w", err)
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	if err, failed := results[1].Interface().(error); failed {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(results[0].Interface())
}

func load(ctx context.Context, graphRoot, runRoot, file string) error {
	store, err := storage.GetStore(storage.StoreOptions{
		GraphRoot:       graphRoot,
		RunRoot:         runRoot,
		GraphDriverName: "vfs",
	})
	if err != nil {
		return err
	}
	source, err := archive.ParseReference(file)
	if err != nil {
		return err
	}
	names, err := namesOf(file)
	if err != nil {
		return err
	}
	everything := &signature.Policy{
		Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()},
	}
	policy, err := signature.NewPolicyContext(everything)
	if err != nil {
		return err
	}
	for _, name := range names {
		destination, err := imagestorage.Transport.ParseStoreReference(store, name)
		if err != nil {
			return err
		}
		if _, err := copy.Image(ctx, policy, destination, source, nil); err != nil {
			return err
		}
	}
	return nil
}

func namesOf(file string) ([]string, error) {
	reader, err := archive.NewReader(nil, file)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	images, err := reader.List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, references := range images {
		for _, reference := range references {
			names = append(names, reference.DockerReference().String())
		}
	}
	return names, nil
}
