module github.com/onefold-go/onefold/test

go 1.26.0

require (
	github.com/onefold-go/onefold v0.0.0
	github.com/stretchr/testify v1.12.1
)

replace github.com/onefold-go/onefold => ../
