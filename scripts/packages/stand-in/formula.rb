# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# Runs a formula of Homebrew without Homebrew: its `install` in the current folder, then its `test`.
# usage: formula.rb FORMULA.rb PREFIX

# What a formula calls.  What it says of itself is kept; what it depends on is not looked for.
class Formula
  class << self
    attr_reader :said, :trial

    def method_missing(name, *values)
      (@said ||= {})[name] = values.first
    end

    def respond_to_missing?(*)
      true
    end

    def test(&block)
      @trial = block
    end
  end

  def initialize(prefix)
    @prefix = prefix
  end

  def version
    self.class.said.fetch(:url)[/-(\d[\d.]*)\.tar/, 1]
  end

  def bin
    "#{@prefix}/bin"
  end

  def std_cmake_args
    %W[-DCMAKE_INSTALL_PREFIX=#{@prefix} -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release]
  end

  def system(*command)
    Kernel.system(*command) || abort("formula: #{command.join(' ')} failed")
  end

  def shell_output(command)
    output = `#{command}`
    $?.success? ? output : abort("formula: #{command} failed")
  end

  def assert_equal(wanted, found)
    wanted == found || abort("formula: #{found.inspect}, not #{wanted.inspect}")
  end

  def assert_match(wanted, found)
    found.include?(wanted) || abort("formula: no #{wanted.inspect} in #{found.inspect}")
  end
end

recipe, prefix = ARGV
load recipe
formula = Libslub.new(prefix)
formula.install
formula.instance_eval(&Libslub.trial)
puts "formula: #{Libslub.said[:desc]}, #{formula.version}: installed and tested"
