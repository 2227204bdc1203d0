@rem Copyright The Stowage Authors.
@rem SPDX-License-Identifier: Apache-2.0
@rem kubectl runs this to complete the arguments of kubectl stowage. It must be in PATH, beside the plugin.
@kubectl stowage __complete %*
