-- SPDX-License-Identifier: MIT
-- What wrk asks for: wrk -s load.lua URL -- TENANT MIX [KEYS [BYTES]]
--
--   serve     seven reads, two writes over one of the KEYS, and a page, by turns
--   fill      writes each key once
--   hoard     writes a new key each time, and never takes one back
--   over      the same bytes to the same few keys: what a hoarder would be, if it let go
--
-- HTTP_DELAY=MILLISECONDS: so long between two requests of a connection.  At the end it prints a
-- line of JSON.

local names = { "tenant", "mix", "keys", "bytes" }
local threads = 0

function setup(thread)
	thread:set("number", threads)
	threads = threads + 1
end

function init(arguments)
	options = { tenant = "a", mix = "serve", keys = 50, bytes = 200 }
	for i, value in ipairs(arguments) do
		options[names[i]] = tonumber(value) or value
	end
	turn = 0
	body = string.rep("value <of> & ", math.ceil(options.bytes / 13)):sub(1, options.bytes)
	math.randomseed(number + 1)
end

local function key(i)
	return "/" .. options.tenant .. "/k" .. i
end

local function any()
	return key(math.random(options.keys))
end

function request()
	turn = turn + 1
	if options.mix == "hoard" then
		return wrk.format("PUT", key(number .. "-" .. turn), nil, body)
	elseif options.mix == "fill" then
		return wrk.format("PUT", key((turn - 1) % options.keys + 1), nil, body)
	elseif options.mix == "over" then
		return wrk.format("PUT", any(), nil, body)
	elseif turn % 10 == 0 then
		return wrk.format("GET", "/" .. options.tenant)
	elseif turn % 5 == 1 then
		return wrk.format("PUT", any(), nil, body)
	end
	return wrk.format("GET", any())
end

-- Before init(), wrk looks whether there is one.
if os.getenv("HTTP_DELAY") then
	function delay()
		return tonumber(os.getenv("HTTP_DELAY"))
	end
end

function done(summary, latency)
	local text = '{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "refused": %d, '
		.. '"broken": %d}\n'
	local errors = summary.errors
	io.write(text:format(summary.requests, summary.duration, latency:percentile(50),
		latency:percentile(99), errors.status,
		errors.connect + errors.read + errors.write + errors.timeout))
end
