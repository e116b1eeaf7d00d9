// Informers of client-go that keep the caches a descheduler needs, and do nothing else: what
// watching costs at least. `informers KUBECONFIG` prints the seconds until all caches are full, and
// watches until its standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Nodes().Informer()
	factory.Core().V1().Namespaces().Informer()
	factory.Policy().V1().PodDisruptionBudgets().Informer()
	factory.Scheduling().V1().PriorityClasses().Informer()
	began := time.Now()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	fmt.Printf("%.3f\n", time.Since(began).Seconds())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
