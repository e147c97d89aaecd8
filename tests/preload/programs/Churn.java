// SPDX-License-Identifier: MIT
// Threads that make garbage, compress with native code and use buffers outside the Java heap.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Churn {
	static long work(int seed) throws Exception {
		TreeMap<Integer, byte[]> map = new TreeMap<>();
		long state = seed;
		CRC32 crc = new CRC32();
		for (int i = 0; i < 40000; i++) {
			state = state * 6364136223846793005L + 1442695040888963407L;
			int key = (int) (state >>> 52);
			map.put(key, new byte[(int) (state >>> 50) % 700]);
			if (i % 1000 == 0)
				crc.update(squeeze(seed, i));
		}
		for (byte[] value : map.values())
			crc.update(value);
		return crc.getValue();
	}

	static byte[] squeeze(int seed, int i) throws Exception {
		byte[] data = new byte[20000];
		for (int j = 0; j < data.length; j++)
			data[j] = (byte) (j * seed + i);
		Deflater deflater = new Deflater();
		deflater.setInput(data);
		deflater.finish();
		byte[] packed = new byte[30000];
		int length = deflater.deflate(packed);
		deflater.end();
		Inflater inflater = new Inflater();
		inflater.setInput(packed, 0, length);
		byte[] back = new byte[20000];
		inflater.inflate(back);
		inflater.end();
		ByteBuffer direct = ByteBuffer.allocateDirect(back.length);
		direct.put(back).flip();
		byte[] copy = new byte[back.length];
		direct.get(copy);
		return copy;
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(8);
		List<Future<Long>> answers = new ArrayList<>();
		for (int i = 1; i <= 24; i++) {
			int seed = i;
			answers.add(pool.submit((Callable<Long>) () -> work(seed)));
		}
		for (Future<Long> answer : answers)
			System.out.println(answer.get());
		pool.shutdown();
		System.gc();
		Process child = new ProcessBuilder("echo", "child").redirectErrorStream(true).start();
		System.out.print(new String(child.getInputStream().readAllBytes()));
		System.out.println(child.waitFor());
	}
}
