# Files that are not safetensors end with 4 and one line.
$ smla run missing.st
! smla: missing.st: cannot be opened: No such file or directory
= 4
$ smla run .
! smla: .: is not a regular file
= 4
$ smla run /dev/null
! smla: /dev/null: is not a regular file
= 4
$ : >empty.st; smla run empty.st
! smla: empty.st: the file has 0 bytes; a safetensors file starts with 8 bytes of header length
= 4
$ printf 1234567 >short.st; smla run short.st
! smla: short.st: the file has 7 bytes; a safetensors file starts with 8 bytes of header length
= 4
$ printf '\377\377\377\377\377\377\377\177{}' >long.st; smla run long.st
! smla: long.st: the header length is 9223372036854775807; only 2 bytes follow it
= 4
$ echo '{}' | craft make f.st 0 3; smla run f.st
! smla: f.st: the header length is 3; only 2 bytes follow it
= 4
$ echo '{}' | craft make f.st 0 18446744073709551615; smla run f.st
! smla: f.st: the header length is 18446744073709551615; only 2 bytes follow it
= 4
$ echo '{"a":' | craft make f.st 0; smla run f.st
! smla: f.st: the header is not JSON: unexpected token near end of file (byte 8 of it)
= 4
$ echo '{} x' | craft make f.st 0; smla run f.st
! smla: f.st: the header is not JSON: end of file expected near 'x' (byte 4 of it)
= 4
$ echo '[]' | craft make f.st 0; smla run f.st
! smla: f.st: the header is not a JSON object
= 4
$ printf '{"a\377":1}' | craft make f.st 0; smla run f.st
! smla: f.st: the header is not JSON: unable to decode byte 0xff near '"a' (byte 3 of it)
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: the header is not JSON: duplicate object key near '"a"' (byte 57 of it)
= 4
$ echo '{"__metadata__":{"a":1}}' | craft make f.st 0; smla run f.st
! smla: f.st: __metadata__: a is not a text
= 4
$ echo '{"__metadata__":[]}' | craft make f.st 0; smla run f.st
! smla: f.st: __metadata__ is not an object of texts
= 4
# tensors of the file
$ echo '{"a":1}' | craft make f.st 0; smla run f.st
! smla: f.st: tensor a: dtype is missing or not a text
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,8]}}' | craft make f.st 8; smla run f.st
! smla: f.st: tensor a: data_offsets hold 8 bytes; dtype and shape make 4
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}' | craft make f.st 0; smla run f.st
! smla: f.st: tensor a: data_offsets [0,4]; accepted: 0 <= begin <= end <= 0
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[-4,0]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: data_offsets [-4,0]; accepted: 0 <= begin <= end <= 4
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[4,0]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: data_offsets [4,0]; accepted: 0 <= begin <= end <= 4
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,9223372036854775807]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: data_offsets [0,9223372036854775807]; accepted: 0 <= begin <= end <= 4
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,9223372036854775808]}}' | craft make f.st 4; smla run f.st
! smla: f.st: the header is not JSON: too big integer near '9223372036854775808' (byte 69 of it)
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4.0]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: data_offsets is not a pair of integers
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: data_offsets is not a pair of integers
= 4
$ echo '{"a":{"dtype":"I32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}' | craft make f.st 0; smla run f.st
! smla: f.st: tensor a: the product of its shape overflows
= 4
$ echo '{"a":{"dtype":"I32","shape":[-1],"data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: dimension 0 of shape is not an integer >= 0
= 4
$ echo '{"a":{"dtype":"I32","shape":"1","data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: shape is not a list of integers
= 4
$ echo '{"a":{"dtype":"I32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: 9 dimensions; accepted: at most 8
= 4
$ echo '{"a":{"dtype":"I3","shape":[1],"data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: dtype I3 is unknown; accepted: BF16, F32, I32 and the like
= 4
$ echo '{"a":{"shape":[1],"data_offsets":[0,4]}}' | craft make f.st 4; smla run f.st
! smla: f.st: tensor a: dtype is missing or not a text
= 4
$ echo '{"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}}' | craft make f.st 8; smla run f.st
! smla: f.st: tensor b: its data overlap those of tensor a
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}}' | craft make f.st 8; smla run f.st
! smla: f.st: tensor a: 4 bytes before its data belong to no tensor
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}}' | craft make f.st 12; smla run f.st
! smla: f.st: tensor b: 4 bytes before its data belong to no tensor
= 4
$ echo '{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}' | craft make f.st 7; smla run f.st
! smla: f.st: 3 bytes at the end of the file belong to no tensor
= 4
$ echo '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}}' | craft make f.st 5; smla run f.st
! smla: f.st: tensor b: misaligned: its data start at byte 121; accepted: a multiple of 4
= 4
$ sed 's/"m"/"mm"/' header.json | craft make f.st 2324 469; smla run f.st
! smla: f.st: tensor topk_indices: misaligned: its data start at byte 477; accepted: a multiple of 4
= 4
# a name in a hostile header does not break the line
$ printf '{"a\\nb\\u001b[31m\303\251":1}' | craft make f.st 0; smla run f.st
! smla: f.st: tensor a?b?[31m??: dtype is missing or not a text
= 4
$ smla run f.st --json
> {
>   "exit": 4,
>   "error": "f.st: tensor a?b?[31m??: dtype is missing or not a text"
> }
! smla: f.st: tensor a?b?[31m??: dtype is missing or not a text
= 4
