// SPDX-License-Identifier: MIT
// Work for node's native heap; what it prints is a function of the computation alone.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync, spawn } = require('child_process');
const crypto = require('crypto');
const zlib = require('zlib');

let state = 12345;
const next = () => (state = (state * 1103515245 + 12345) % 2147483648);
const digest = (x) => crypto.createHash('sha256').update(x).digest('hex').slice(0, 16);

function tree(depth) {
  if (depth === 0) return next() % 2 ? 'x'.repeat(next() % 50) : next();
  return Array.from({ length: 1 + next() % 5 }, () => ({ child: tree(depth - 1) }));
}

function buffers() {
  const kept = [];
  let sum = 0;
  for (let i = 0; i < 20000; i++) {
    const buffer = Buffer.alloc(1 + next() % 20000, i % 256);
    sum = (sum + buffer[buffer.length - 1] + buffer.length) % 1000000007;
    if (i % 100 === 0) kept.push(buffer);
  }
  return digest(Buffer.concat(kept)) + ' ' + sum;
}

function work(n) {
  const text = JSON.stringify(Array.from({ length: 5000 }, (_, i) => ({ i, n, s: 'v' + i * n })));
  return digest(zlib.gunzipSync(zlib.gzipSync(text)));
}

async function main() {
  const text = JSON.stringify(Array.from({ length: 50 }, () => tree(5)));
  console.log('json', text.length, digest(JSON.stringify(JSON.parse(text))));
  console.log('buffers', buffers());
  const answers = await Promise.all([1, 2, 3, 4].map((n) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('message', resolve);
    worker.on('error', reject);
  })));
  console.log('workers', answers.join(' '));
  console.log('child', execFileSync(process.execPath, ['-e', 'console.log(6 * 7)']).toString().trim());
  const child = spawn('cat');
  const large = Buffer.alloc(3000000, 'abc');
  const chunks = [];
  child.stdout.on('data', (chunk) => chunks.push(chunk));
  child.stdin.end(large);
  await new Promise((resolve) => child.on('close', resolve));
  console.log('pipe', Buffer.concat(chunks).equals(large));
  console.log('arrays', digest(Buffer.from(new Float64Array(500000).map((_, i) => i * 0.5).buffer)));
}

if (isMainThread) main();
else parentPort.postMessage(work(workerData));
