# SPDX-License-Identifier: MIT
# Work for ruby's heap; what it prints is a function of the computation alone.
require 'digest'
require 'json'

random = Random.new(1)
words = Hash.new { |hash, key| hash[key] = String.new }
100_000.times { |i| words["word#{random.rand(9000)}"] << (97 + i % 26).chr }
puts words.size, Digest::SHA256.hexdigest(words.sort.join)[0, 16]

threads = (1..6).map do |seed|
  Thread.new do
    local = Random.new(seed)
    Digest::SHA256.hexdigest(JSON.generate((1..3000).map { { k: local.rand(1000), v: 'x' * local.rand(90) } }))
  end
end
puts threads.map { |thread| thread.value[0, 8] }.join(' ')

fibers = (1..300).map { |i| Fiber.new { Fiber.yield('y' * i); i } }
puts fibers.sum { |fiber| fiber.resume.size }, fibers.sum(&:resume)
GC.start
GC.compact if GC.respond_to?(:compact)
3.times do |i|
  pid = fork { exit!(Array.new(5000) { |j| 'z' * (j % 70) }.join.size % 90 + i) }
  Process.wait(pid)
  puts $?.exitstatus
end
puts `echo from a shell`, 3**2000 % 1_000_003
