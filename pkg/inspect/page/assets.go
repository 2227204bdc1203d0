// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"embed"
	"net/http"
	"path"
)

//go:embed assets
var assets embed.FS

// contentTypes are those of the assets. What the machine knows about names of files is not used: it may be wrong.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// asset serves a file of the page.
func asset(w http.ResponseWriter, name string) {
	content, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	_, _ = w.Write(content) // the browser is gone
}
