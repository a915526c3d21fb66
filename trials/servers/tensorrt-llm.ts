/** TensorRT-LLM 1.2.1: flags, and a file for options without flags. */
import { type DraftMethods, maxMatchedNgram, writeDrafts } from './drafts.ts'
import { readLanguageKnobs, readSwitch, translateCacheType, writeFlags } from './language-knobs.ts'
import type { FileOptions, LanguageProgram } from './language-program.ts'

/** A separate draft model requires that the overlap scheduler is off. */
const drafts: DraftMethods<FileOptions> = {
  ngram: (tokens) => ({
    disable_overlap_scheduler: true,
    speculative_config: {
      decoding_type: 'NGram',
      max_draft_len: tokens,
      max_matching_ngram_size: maxMatchedNgram,
    },
  }),
  draft: (tokens, model) => ({
    disable_overlap_scheduler: true,
    speculative_config: {
      decoding_type: 'DraftTarget',
      max_draft_len: tokens,
      speculative_model_dir: model,
    },
  }),
  // `Eagle` is EAGLE-3 to its PyTorch backend.
  eagle3: (tokens, model) => ({
    speculative_config: {
      decoding_type: 'Eagle',
      max_draft_len: tokens,
      speculative_model_dir: model,
    },
  }),
}

export const tensorrtLlm: LanguageProgram = {
  image: 'nvcr.io/nvidia/tensorrt-llm/release:1.2.1',
  install:
    'pip install tensorrt_llm==1.2.1 (it needs CUDA 13 and OpenMPI), or run tune in its image',
  command: (weights) => ['trtllm-serve', 'serve', weights],
  // It accepts any model name.
  serves: ({ host = '0.0.0.0', port }) => [`--host=${host}`, `--port=${port}`],
  // No flag for quantization: the files of quantized weights state it.
  flags: (knobs, grant) => {
    const tuned = readLanguageKnobs(knobs, grant)
    return writeFlags([
      ['max_batch_size', tuned.sequences],
      ['max_num_tokens', tuned.tokens],
      ['kv_cache_free_gpu_memory_fraction', tuned.memory],
      ['max_seq_len', tuned.length],
      ['tp_size', tuned.gpus],
      ['pp_size', tuned.stages],
    ])
  },
  file: {
    name: 'trtllm.yaml',
    flag: 'extra_llm_api_options',
    options: (knobs, grant) => {
      const { memory, dtype, cache } = readLanguageKnobs(knobs, grant)
      const reuse = readSwitch(knobs, 'enablePrefixCaching')
      const chunked = readSwitch(knobs, 'enableChunkedPrefill')
      return {
        ...(chunked !== undefined && { enable_chunked_prefill: chunked }),
        ...(dtype !== undefined && { dtype }),
        ...((cache !== undefined || reuse !== undefined) && {
          kv_cache_config: {
            ...(cache !== undefined && { dtype: translateCacheType({ fp8_e4m3: 'fp8' }, cache) }),
            ...(reuse !== undefined && { enable_block_reuse: reuse }),
            // In some versions a group in the file replaces all flags of that group.
            ...(memory !== undefined && { free_gpu_memory_fraction: memory }),
          },
        }),
        ...writeDrafts(drafts, knobs),
      }
    },
    usual: {
      // Without it a prompt longer than the token limit of a step is refused.
      enable_chunked_prefill: true,
      // Without it there are no Prometheus metrics.
      return_perf_metrics: true,
    },
    grouped: {
      kv_cache_free_gpu_memory_fraction: ['kv_cache_config', 'free_gpu_memory_fraction'],
    },
  },
  drafts,
  namesByFolder: true,
  metricsPath: '/prometheus/metrics',
  // Version 1.2 returns each statistic once, as JSON, and under load incompletely
  // (NVIDIA/TensorRT-LLM issue 4926): not used.
  metrics: {},
}
