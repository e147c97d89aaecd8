# SPDX-License-Identifier: MIT
# Imitates a web application in Ruby: texts longer than a cell, arrays and hashes that grow.
def main(rounds)
  total = 0
  rounds.times do |step|
    rows = (0...8000).map do |i|
      { "id" => i, "name" => "name number #{i} of step #{step} and some more", "list" => [i] * (i % 40) }
    end
    by_name = rows.to_h { |row| [row["name"], row] }
    page = rows.map { |row| "<li>#{row["name"]}: #{row["list"].size}</li>" }.join("\n")
    total += by_name.size + page.lines.size + rows.sum { |row| row["list"].size }
  end
  puts "@done #{total}"
  $stdout.flush
  $stdin.read
end

main(ARGV[0].to_i)
