# SPDX-License-Identifier: MIT
# Completion of the slub command for bash.

_slub_run()
{
	local word=$2 i

	# Behind the command's name, complete as for that command.
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) ((++i < COMP_CWORD)) || break ;;
		-*|=) continue ;;
		*) [[ ${COMP_WORDS[i - 1]} == "=" ]] && continue ;;
		esac
		if declare -F _command_offset >/dev/null; then
			_command_offset "$i"
		else
			COMPREPLY=($(compgen -f -- "$word"))
		fi
		return
	done

	# bash splits --huge=b into three words at the equals sign.
	local option=$3
	[[ $word == "=" ]] && word=
	[[ $option == "=" ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
	case $option in
	--fastpath) COMPREPLY=($(compgen -W "auto rseq thread tid lock" -- "$word")); return ;;
	--huge) COMPREPLY=($(compgen -W "never block always auto" -- "$word")); return ;;
	--mode) COMPREPLY=($(compgen -W "balanced compact fast" -- "$word")); return ;;
	--percpu) COMPREPLY=($(compgen -W "virtual static" -- "$word")); return ;;
	--attach) COMPREPLY=($(compgen -W "auto 0 1" -- "$word")); return ;;
	--on_error) COMPREPLY=($(compgen -W "abort report ignore" -- "$word")); return ;;
	--guard_side) COMPREPLY=($(compgen -W "any front behind" -- "$word")); return ;;
	--deepbind) COMPREPLY=($(compgen -W "drop keep" -- "$word")); return ;;
	--pressure) COMPREPLY=($(compgen -W "thread" -- "$word")); return ;;
	--slabinfo|--debug_report|--debug_leaks)
		COMPREPLY=($(compgen -W stderr -f -- "$word")); return ;;
	--stats_file|--profile_file) COMPREPLY=($(compgen -f -- "$word")); return ;;
	--retain|--address_space|--percpu_bytes|--cpus|--min_order|--limit|--reclaim_rate) return ;;
	--debug|--debug_fail|--profile|--profile_seed|--guard|--guard_places) return ;;
	--quarantine|--large_quarantine|--free_fill) return ;;
	esac

	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "--fastpath= --huge= --mode= --retain= --address_space= \
			--slabinfo= --stats_file= --percpu= --percpu_bytes= --percpu_huge --cpus= \
			--merge --min_order= --limit= --reclaim_rate= --debug= --debug_report= \
			--debug_abort --on_error= --debug_leaks= --debug_fail= --profile= \
			--profile_file= --profile_seed= --guard= --guard_places= --guard_side= \
			--deepbind= --attach= \
			--quarantine= --large_quarantine= --free_fill= --zero_on_free \
			--check_calls \
			--pressure= --hardened --verbose --force --help --" -- "$word"))
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
	else
		COMPREPLY=($(compgen -c -- "$word"))
	fi
}

_slub_pids()
{
	(cd /proc && printf '%s ' [0-9]*)
}

# What follows an option of the commands that look into a process; false: the option itself.
_slub_value()
{
	local option=$1 word=$2

	case $option in
	-p|--process) COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word")) ;;
	--color) COMPREPLY=($(compgen -W "always never auto" -- "$word")) ;;
	--sort) COMPREPLY=($(compgen -W "a b c g k l n o p s u v w" -- "$word")) ;;
	--watch|--delay|-N|--lines|--columns) ;;
	*) return 1 ;;
	esac
}

_slub_look()
{
	local word=$2 option=$3 command=${COMP_WORDS[1]}
	local common="--process= --json --watch= --once --color= --help"

	[[ $word == "=" ]] && word=
	[[ $option == "=" ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
	_slub_value "$option" "$word" && return
	case $command in
	top|info|stats) common+=" --openmetrics" ;;&
	top) common+=" --delay= --sort= --human --groups" ;;
	info) common+=" --aliases --activity --bytes --display-active --empty \
		--inverted --slabs --sort-loss --numa --lines= --ops --partial --report \
		--size --totals --unreclaim --xtotals --zero --1ref --debug= --shrink \
		--first-alias --groups \
		--tracking --validate" ;;
	map) common+=" --svg --columns=" ;;
	traces) common+=" --alloc --free --lines=" ;;
	leaks) common+=" --lines=" ;;
	esac
	if [[ $word != -* ]]; then
		COMPREPLY=($(compgen -W "$(_slub_pids)" -- "$word"))
		return
	fi
	COMPREPLY=($(compgen -W "$common" -- "$word"))
	[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
}

_slub()
{
	local word=$2

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "run doctor info stats map profile debug traces explain \
			exporter help --help --version" \
			-- "$word"))
		return
	fi
	# What stands beneath a command is completed as by its own name.
	case "${COMP_WORDS[1]} ${COMP_WORDS[2]-}" in
	"run --options"|"doctor --check"|"info --top"|"traces --leaks"|\
	"debug validate"|"debug shrink"|"debug guard"|"debug set")
		if ((COMP_CWORD > 2)); then
			COMP_WORDS=("${COMP_WORDS[0]}" "${COMP_WORDS[2]#--}" "${COMP_WORDS[@]:3}")
			((COMP_CWORD--))
		fi
		;;
	esac
	if [[ ${COMP_WORDS[1]} == debug && $COMP_CWORD -eq 2 && $word != -* ]]; then
		COMPREPLY=($(compgen -W "validate shrink guard set $(_slub_pids)" -- "$word"))
		return
	fi
	case ${COMP_WORDS[1]} in
	run) _slub_run "$@" ;;
	check)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --json --quiet --help" -- "$word"))
		else
			COMPREPLY=($(compgen -W "$(_slub_pids)" -- "$word"))
		fi
		;;
	doctor)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --json --color --help" -- "$word"))
		else
			COMPREPLY=($(compgen -W "$(_slub_pids)" -c -- "$word"))
		fi
		;;
	top|info|stats|map|options|traces|leaks) _slub_look "$@" ;;
	exporter)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --textfile= --watch= --listen= --help" \
				-- "$word"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		else
			COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word"))
		fi
		;;
	profile)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --seconds= --leaks --bytes= --timeout= \
				--output= \
				--text --json --alloc --lines= --help" \
				-- "$word"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		else
			COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word"))
		fi
		;;
	debug|set)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --json --timeout= --blocked --help" \
				-- "$word"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		elif ((COMP_CWORD == 2)); then
			COMPREPLY=($(compgen -W "$(_slub_pids)" -- "$word"))
		fi
		;;
	explain)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --json --help" -- "$word"))
		elif ((COMP_CWORD == 2)); then
			COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word"))
		fi
		;;
	validate|shrink|guard)
		if [[ $3 == -p || $3 == --process ]]; then
			COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word"))
		elif [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--process= --json --timeout= --blocked --help" \
				-- "$word"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		fi
		;;
	help)
		COMPREPLY=($(compgen -W "run check doctor top info stats exporter map profile \
			options debug validate shrink leaks traces guard set explain" -- "$word"))
		;;
	esac
}

complete -F _slub slub
