"""Shells: the scripts by which bash, zsh and fish complete the command.

A script asks the command itself. So it fits every later version, and it knows the ids and the
runtimes that are there. It gives the words up to the cursor as arguments and reads lines:

- the first is ``files`` or ``folders`` if the shell may offer these, ``ends`` if each word ends
  with the word at the cursor and is to replace it, else ``words``;
- each other line is a word, and after a tab a remark about it.

If several words have the same end, their common beginning must not replace the word at the cursor.
So bash and fish only list them, and zsh puts one after the other into the line.

Every word consists of characters that no shell reads as anything else; see `completing`.
"""

from __future__ import annotations

from typing import Final

ASKED: Final = "_AGENTIC_KERNEL_COMPLETE"
"""The environment variable by which a script asks; its value is the name of the shell."""

_BASH: Final = f"""\
_agentic_kernel() {{
    local kind="" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [ -z "$kind" ]; then kind=$line; else COMPREPLY+=("${{line%%$'\\t'*}}"); fi
    done < <({ASKED}=bash "$1" "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
    case $kind in
        files) ;;
        folders) compopt +o default -o dirnames 2>/dev/null ;;
        *) compopt +o default 2>/dev/null ;;
    esac
    if [ "$kind" = ends ] && [ "${{#COMPREPLY[@]}}" -gt 1 ]; then
        # 63, 37 and 42 list the words or insert one whole; any other inserts what all begin with.
        case $COMP_TYPE in 63|37|42) ;; *) COMPREPLY=() ;; esac
    fi
    return 0
}}
complete -o default -o nosort -F _agentic_kernel agentic-kernel 2>/dev/null \\
    || complete -o default -F _agentic_kernel agentic-kernel
"""
_ZSH: Final = f"""\
#compdef agentic-kernel
_agentic_kernel() {{
    local -a reply values shown way
    local line
    reply=("${{(@f)$({ASKED}=zsh "${{(Q)words[1]}}" "${{(@Q)words[2,CURRENT]}}" 2>/dev/null)}}")
    for line in "${{(@)reply[2,-1]}}"; do
        values+=("${{line%%$'\\t'*}}")
        shown+=("${{line/$'\\t'/  -- }}")
    done
    case $reply[1] in
        files) _files ;;
        folders) _files -/ ;;
        ends) way=(-U); (( $#values > 1 )) && compstate[insert]=menu ;;
    esac
    (( $#values )) && compadd $way -l -V agentic-kernel -d shown -a values
}}
if [ "$funcstack[1]" = _agentic-kernel ]; then
    _agentic_kernel "$@"
else
    compdef _agentic_kernel agentic-kernel
fi
"""
_FISH: Final = f"""\
function __agentic_kernel_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l reply (env {ASKED}=fish $words "$current" 2>/dev/null)
    switch "$reply[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
    if test (count $reply) -gt 1
        printf '%s\\n' $reply[2..-1]
    end
end
complete -c agentic-kernel -f -k -a '(__agentic_kernel_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell."""
