//go:build !linux

package faultnet

import (
	"errors"
	"os/exec"
)

// Namespaces are there on Linux only.
type Namespaces struct{ Net }

// Enclosed says no.
func Enclosed() bool { return false }

// Enclose changes nothing.
func Enclose(*exec.Cmd) {}

// OpenNamespaces makes nothing.
func OpenNamespaces([]string) (*Namespaces, error) {
	return nil, errors.New("faultnet: network namespaces are Linux's: nothing was made")
}

// Address is empty.
func (n *Namespaces) Address(string) string { return "" }
