// The tools that build and check the product, apart from its own dependencies.
module stowage.dev/stowage/hack/tools

go 1.26.0

tool golang.org/x/tools/cmd/goimports

require (
	golang.org/x/mod v0.37.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/telemetry v0.0.0-20260625142307-59b4966ccb57 // indirect
	golang.org/x/tools v0.47.0 // indirect
)
