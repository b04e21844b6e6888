//go:build !linux

package hugepages

import "errors"

func open() (heap, error) { return nil, errors.ErrUnsupported }
