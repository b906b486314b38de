#!/bin/sh
# An HPO method as a program in another language: the rows in their order.
#
# hpobench-nmt run --methods "RS,cmd:sh examples/agent.sh" --tables sotu-ngram
row=0
seen=" "
while read -r line; do
    case $line in
    '{"message": "tell",'*)
        told=${line#*'"row": '}
        seen="$seen${told%%,*} "
        ;;
    '{"message": "ask",'*)
        while case $seen in *" $row "*) true ;; *) false ;; esac do
            row=$((row + 1))
        done
        echo "{\"row\": $row}"
        ;;
    esac
done
