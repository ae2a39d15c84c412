# Sound safetensors files that are not captures. header.json is right; each command spoils one thing.
$ craft make f.st 2324 <header.json; smla run f.st
! smla: f.st: query_start_loc[1] = 0: rows = 1 is accepted
= 4
$ sed 's/"q":/"p":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor q is missing
= 4
$ sed 's/"kv_cache":/"kv":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor kv_cache is missing
= 4
$ sed 's/"topk_indices":/"topk":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor topk_indices is missing
= 4
$ sed 's/"block_table":/"table":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor block_table is missing
= 4
$ sed 's/"seq_lens":/"lens":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor seq_lens is missing
= 4
$ sed 's/"query_start_loc":/"starts":/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor query_start_loc is missing
= 4
$ sed 's/"BF16"/"F16"/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor q: dtype F16; accepted: BF16
= 4
$ sed 's/"kv_cache":{"dtype":"BF16"/"kv_cache":{"dtype":"F16"/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor kv_cache: dtype F16; accepted: BF16
= 4
$ sed 's/"I32"/"F32"/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor topk_indices: dtype F32; accepted: I32
= 4
$ sed 's/\[1,1,576\]/[1,2,288]/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor q: shape [1,2,288]; accepted: [T,H,576], each size >= 1
= 4
$ sed 's/\[1,1,576\]/[1,576]/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor q: shape [1,576]; accepted: [T,H,576], each size >= 1
= 4
$ sed 's/\[1,1,576\]/[576]/2' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor kv_cache: shape [576]; accepted: [C,B,576], each size >= 1
= 4
$ sed 's/"shape":\[1,1\]/"shape":[1]/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor topk_indices: shape [1]; accepted: [T=1,K], each size >= 1
= 4
$ sed 's/"shape":\[1,1\],"data_offsets":\[0,4\]/"shape":[0,1],"data_offsets":[0,0]/; s/\[4,8\]/[0,8]/; s/"block_table":{"dtype":"I32","shape":\[1,1\]/"block_table":{"dtype":"I32","shape":[1,2]/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor topk_indices: shape [0,1]; accepted: [T=1,K], each size >= 1
= 4
# sizes that disagree with those of another tensor
$ sed 's/"shape":\[2\]/"shape":[1]/; s/\[12,20\]/[16,20]/; s/"shape":\[1\],"data_offsets":\[8,12\]/"shape":[2],"data_offsets":[8,16]/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: tensor query_start_loc: shape [1]; accepted: [R+1=3], each size >= 1
= 4
$ sed 's/"shape":\[1,1\],"data_offsets":\[0,4\]/"shape":[2,1],"data_offsets":[0,8]/; s/\[4,8\]/[8,12]/; s/\[8,12\]}/[12,16]}/2; s/\[12,20\]/[16,24]/; s/\[20,1172\]/[24,1176]/; s/\[1172,2324\]/[1176,2328]/' header.json | craft make f.st 2328; smla run f.st
! smla: f.st: tensor topk_indices: shape [2,1]; accepted: [T=1,K], each size >= 1
= 4
$ sed 's/}}$/},"topk_length":{"dtype":"I32","shape":[2],"data_offsets":[2324,2332]}}/' header.json | craft make f.st 2332; smla run f.st
! smla: f.st: tensor topk_length: shape [2]; accepted: [T=1], each size >= 1
= 4
$ sed 's/}}$/},"sinks":{"dtype":"F32","shape":[2],"data_offsets":[2324,2332]}}/' header.json | craft make f.st 2332; smla run f.st
! smla: f.st: tensor sinks: shape [2]; accepted: [H=1], each size >= 1
= 4
$ sed 's/}}$/},"sinks":{"dtype":"BF16","shape":[1],"data_offsets":[2324,2326]}}/' header.json | craft make f.st 2326; smla run f.st
! smla: f.st: tensor sinks: dtype BF16; accepted: F32
= 4
$ sed 's/}}$/},"expected_lse":{"dtype":"F32","shape":[1],"data_offsets":[2324,2328]}}/' header.json | craft make f.st 2328; smla run f.st
! smla: f.st: tensor expected_lse: shape [1]; accepted: [T=1,H=1], each size >= 1
= 4
$ sed 's/}}$/},"expected_out":{"dtype":"F32","shape":[1,1,576],"data_offsets":[2324,4628]}}/' header.json | craft make f.st 4628; smla run f.st
! smla: f.st: tensor expected_out: shape [1,1,576]; accepted: [T=1,H=1,512], each size >= 1
= 4
# metadata
$ sed 's/"softmax_scale":"0.05",//' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: metadata softmax_scale is missing; accepted: a finite decimal number
= 4
$ for s in nan inf -inf 1e39 1e999 0x1p-3 '' ' 0.05' '0.05 ' 0,05 x 1e; do sed "s/\"0.05\"/\"$s\"/" header.json | craft make f.st 2324; smla run f.st; done
! smla: f.st: metadata softmax_scale is 'nan'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is 'inf'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '-inf'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '1e39'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '1e999'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '0x1p-3'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is ''; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is ' 0.05'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '0.05 '; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '0,05'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is 'x'; accepted: a finite decimal number
! smla: f.st: metadata softmax_scale is '1e'; accepted: a finite decimal number
= 4
$ sed 's/"block_size":"1",//' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: metadata block_size is missing; accepted: 1, as in the shape of kv_cache
= 4
$ for s in 0 64 -1 +1 '' 1.0 ' 1' 18446744073709551617 x; do sed "s/\"block_size\":\"1\"/\"block_size\":\"$s\"/" header.json | craft make f.st 2324; smla run f.st; done
! smla: f.st: metadata block_size is '0'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is '64'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is '-1'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is '+1'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is ''; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is '1.0'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is ' 1'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is '18446744073709551617'; accepted: 1, as in the shape of kv_cache
! smla: f.st: metadata block_size is 'x'; accepted: 1, as in the shape of kv_cache
= 4
$ sed 's/{"softmax.*"m"}/null/' header.json | craft make f.st 2324; smla run f.st
! smla: f.st: __metadata__ is not an object of texts
= 4
