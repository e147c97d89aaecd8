// SPDX-License-Identifier: MIT
// Imitates a service in JavaScript: buffers and texts, which live outside the collector's heap,
// compressed and parsed back.
'use strict';
const zlib = require('zlib');

function main(rounds) {
	let total = 0;
	for (let step = 0; step < rounds; step++) {
		const kept = [];
		for (let i = 0; i < 3000; i++) {
			const body = Buffer.allocUnsafeSlow(200 + (i * 7919) % 6000).fill(i & 255);
			kept.push(body);
			total += body.length;
		}
		const text = JSON.stringify(kept.slice(0, 100).map((b, i) => ({ i, size: b.length })));
		for (let i = 0; i < 30; i++) {
			const packed = zlib.deflateSync(kept[i * 50]);
			total += zlib.inflateSync(packed).length;
		}
		total += JSON.parse(text).length;
	}
	process.stdout.write(`@done ${total}\n`);
	process.stdin.resume();
}

main(Number(process.argv[2]));
