// A load of a known size; without flags it only waits, as a pause container does.
package main

import (
	"bytes"
	"flag"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const longestDebt = 0.5 // seconds of CPU that it catches up with; it forgets what is more

func main() {
	share := flag.Float64("cpu", 0, "percent of a CPU to use")
	memory := flag.Int("memory", 0, "MiB to hold")
	grace := flag.Duration("grace", 0, "how long to go on after SIGTERM")
	flag.Parse()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	held := bytes.Repeat([]byte{1}, *memory<<20)
	if *share > 0 {
		go burn(*share / 100)
	}
	<-end
	time.Sleep(*grace)
	runtime.KeepAlive(held)
}

// burn uses this share of a CPU on the average, also where others delay it.
func burn(share float64) {
	last, debt := time.Now(), 0.0
	for used := cpuSeconds(); ; {
		now, total := time.Now(), cpuSeconds()
		debt = min(longestDebt, debt+share*now.Sub(last).Seconds()-(total-used))
		last, used = now, total
		if debt <= 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
		}
	}
}

// cpuSeconds is what the whole process has used.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
