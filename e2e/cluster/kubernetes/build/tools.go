// SPDX-License-Identifier: Apache-2.0

//go:build tools

package main

import _ "github.com/containernetworking/cni/cnitool"
