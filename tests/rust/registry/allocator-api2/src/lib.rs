// SPDX-License-Identifier: MIT
compile_error!("the feature allocator-api2 needs the real package: `cargo fetch` in bindings/rust");
