#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes the module file of the product for another minor of Kubernetes into a folder:
#
#   hack/minor-gomod.sh 1.36 .      # go-1.36.mod and go-1.36.sum
#
# It is go.mod with that minor's modules of Kubernetes, at the patch that pkg/kubecompat/1.36
# requires, and with what that patch itself requires instead of the newer versions of indirect
# requirements. For the minor of go.mod it writes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minor=$1 file=$2/go-$1.mod
patch=$(awk '$2 == "k8s.io/kubernetes" { print $3 }' "pkg/kubecompat/$minor/go.mod")
if [[ $(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod) == "$patch" ]]; then
  exit
fi
upstream=$(go mod download -json "k8s.io/kubernetes@$patch" | awk -F'"' '$2 == "GoMod" { print $4 }')

# version of a module that the patch requires, nothing if it does not
required() {
  awk -v module="$1" '$1 == module && $2 != "=>" { print $2 }' "$upstream"
}

edits=()
while read -r module version comment; do
  case $module in
    k8s.io/kubernetes) edits+=("-require=$module@$patch") ;;
    stowage.dev/*) ;;
    *)
      if [[ $comment == *indirect* ]]; then
        edits+=("-droprequire=$module")
      elif [[ $module == k8s.io/* && -n $(required "$module") ]]; then
        version=$(required "$module")
        edits+=("-require=$module@${version/%v0.0.0/v0${patch#v1}}")
      fi
      ;;
  esac
done < <(awk '/^require \(/ { on = 1; next } /^\)/ { on = 0 } on' go.mod)
while read -r module; do
  edits+=("-dropreplace=$module")
done < <(awk '$1 == "replace" && $2 ~ /^k8s.io\// { print $2 }' go.mod)
while read -r module; do
  edits+=("-replace=$module=$module@v0${patch#v1}")
done < <(awk '$2 == "=>" && $3 ~ /^\.\/staging\// { print $1 }' "$upstream")

cp go.mod "$file"
go mod edit "${edits[@]}" -replace=stowage.dev/kubecompat=./pkg/kubecompat/"$minor" "$file"
: >"${file%.mod}.sum"
go mod tidy -modfile="$file"
