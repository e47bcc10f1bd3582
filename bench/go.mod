module github.com/onefold-go/onefold/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/dustin/go-humanize v1.1.0
	github.com/onefold-go/onefold v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.20.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/FastFilter/xorfilter v0.5.1 // indirect
	github.com/dchest/siphash v1.2.3 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/onefold-go/onefold => ../
