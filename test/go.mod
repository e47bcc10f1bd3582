module github.com/onefold-go/onefold/test

go 1.26.0

require (
	github.com/onefold-go/onefold v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/FastFilter/xorfilter v0.5.1 // indirect
	github.com/dchest/siphash v1.2.3 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/onefold-go/onefold => ../
