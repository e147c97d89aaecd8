# SPDX-License-Identifier: MIT
# Completion of the slub command for fish.  What there is, is asked of the command itself.

function __slub_pids
    for folder in (string match -r '^/proc/[0-9]+$' /proc/*)
        set -l name
        test -r $folder/comm; and read name <$folder/comm 2>/dev/null
        printf '%s\t%s\n' (string replace /proc/ '' $folder) $name
    end
end

# Each long option of a command with what the help says of it.
function __slub_options
    slub $argv[1] --help 2>/dev/null | awk -F '  +' '{
        for (i = 2; i <= NF; i++) {
            if ($i !~ /^(-[A-Za-z0-9], )?--[a-z0-9]/)
                continue
            name = $i
            sub(/^-[A-Za-z0-9], /, "", name)
            needs = name ~ /^[a-z0-9_-]+=/ ? "=" : ""
            sub(/[=[].*/, "", name)
            print name needs "\t" ($(i + 1) ~ /^-/ ? "" : $(i + 1))
        }
    }'
    test $argv[1] = run; or return
    printf '%s\t%s\n' -- 'the command follows'
    slub options --all 2>/dev/null | awk -F '  +' 'NR > 1 {
        sub("SLUB_", "", $1)
        print "--" tolower($1) ($3 == "0|1" ? "" : "=") "\t" $4 }'
end

# The range of an option of `slub run`, as `slub options` prints it.
function __slub_range
    slub options --all 2>/dev/null | awk -v name=$argv[1] '
        "--" tolower(substr($1, 6)) == name { print $3 }'
end

# What an option may be, of a command; false: it takes no value.
function __slub_value
    set -l command $argv[1]
    set -l option $argv[2]
    set -l word $argv[3]

    switch $option
        case -p --process
            __slub_pids
            __fish_complete_path $word
            return 0
        case --color
            string split ' ' 'always never auto'
            return 0
        case --sort
            slub $command --help 2>/dev/null | awk -F '  +' '{
                for (i = 1; i < NF; i++)
                    if ($i ~ /^[a-z]$/)
                        print $i "\t" $(i + 1) }'
            return 0
        case --textfile --output
            __fish_complete_path $word
            return 0
        case -N --lines --watch --delay --columns --seconds --bytes --timeout --wake-after --node
            return 0
    end
    test $command = run; and string match -q -- '--*' $option; or return 1
    set -l range (__slub_range $option)
    switch "$range"
        case '' '0|1'
            return 1
        case FILE
            echo stderr
            __fish_complete_path $word
        case '*|*'
            string split '|' $range
    end
    return 0
end

function __slub_commands
    slub --help 2>/dev/null | sed -nE 's/^  ([a-z]+)  +([^ ].*)/\1\t\2/p'
    printf '%s\t%s\n' help 'explains a command' --help 'prints what there is' \
        --version 'prints the version'
end

# Where in the words the command begins that `slub run` is to run; 0: not there yet.
function __slub_run_at
    for i in (seq 3 (count $argv))
        switch $argv[$i]
            case --
                echo (math $i + 1)
                return
            case '-*'
                continue
        end
        echo $i
        return
    end
    echo 0
end

function __slub_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l command $words[2]

    if test (count $words) -eq 1; or test $command = help
        __slub_commands
        return
    end
    if test $command = run
        set -l at (__slub_run_at $words)
        if test $at -gt 0
            set -e words[1..(math $at - 1)]
            complete -C (string join ' ' -- (string escape -- $words) "$word")
            return
        end
    end
    set -l option $words[-1]
    set -l before ''
    if string match -q -- '--*=*' $word
        set option (string replace -r '=.*' '' -- $word)
        set before $option=
        set word (string replace -r '^[^=]*=' '' -- $word)
    end
    set -l found (__slub_value $command $option $word)
    if test $status -eq 0
        printf '%s\n' $before$found
        return
    end
    if string match -q -- '-*' $word
        __slub_options $command
        return
    end
    switch $command
        case run
            __fish_complete_command
        case doctor
            __slub_pids
            __fish_complete_command
        case '*'
            __slub_pids
            __fish_complete_path $word
    end
end

complete -c slub -f -a '(__slub_complete)'
