import { Matrix, solve } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { countParameters, type Decoder, findArchitecture } from './architecture.ts'
import { findGpu, type Gpu, gpuCatalogue } from './catalogue.ts'
import { completeGpu, estimateWatts, parseArchitecture, parseGpus } from './custom-devices.ts'
import { fits, predictDeviceLatency } from './device-model.ts'
import { findProcessNm } from './device-physics.ts'

test('a GPU of the user: the figures given, a larger error bar', () => {
  const own = parseGpus(
    'Home Card:\n  memoryGiB: 16\n  bandwidthGBs: 500\n  peakTflops: { fp32: 20, fp16: 80 }\n',
    'gpus.yaml',
  )
  const gpu = findGpu('home-card', own)
  const bert = findArchitecture('bert')
  const { ms, relativeError } = predictDeviceLatency({ architecture: bert, gpu, batch: 8 })
  expect(ms).toBeLessThan(
    predictDeviceLatency({ architecture: bert, gpu: findGpu('T4'), batch: 8 }).ms,
  )
  expect(relativeError).toBeGreaterThan(0.1)
  expect(fits({ architecture: bert, gpu, batch: 8 }).fits).toBe(true)
})

test('power that a datasheet does not tell is that of the catalogue’s GPUs, and one of them left out is met to 25 %', () => {
  const known = gpuCatalogue.filter((gpu) => gpu.peakTflops.fp16 !== undefined)
  const truth = (gpu: Gpu) => Math.log((gpu.tdpWatts * 12) / findProcessNm(gpu))
  const row = (gpu: Gpu) => [1, Math.log(gpu.bandwidthGBs), Math.log(gpu.peakTflops.fp32!)]
  const fitted = (gpus: readonly Gpu[]) =>
    solve(new Matrix(gpus.map(row)), Matrix.columnVector(gpus.map(truth))).to1DArray()
  const told = (x: readonly number[], gpu: Gpu) =>
    row(gpu).reduce((sum, value, i) => sum + value * x[i]!, 0)
  const all = fitted(known)
  for (const gpu of known)
    expect(Math.log(estimateWatts(gpu)), gpu.name).toBeCloseTo(told(all, gpu), 1)
  const left = known.map(
    (gpu) => told(fitted(known.filter((other) => other !== gpu)), gpu) - truth(gpu),
  )
  expect(Math.sqrt(left.reduce((sum, e) => sum + e ** 2, 0) / left.length)).toBeLessThan(0.26)
})

test('a GPU of which the generation alone is not told is as unsure as one with guessed figures, and its process lies between those there are', () => {
  const { name: _, hasEstimatedFigures: __, ...sheet } = findGpu('A10')
  const { generation, ...rest } = sheet
  expect(completeGpu('Card', { ...rest, generation }).hasEstimatedFigures).toBeUndefined()
  expect(completeGpu('Card', rest)).toMatchObject({ hasEstimatedFigures: true, processNm: 8 })
  const ms = (gpu: Gpu) =>
    predictDeviceLatency({ architecture: findArchitecture('bert'), gpu, batch: 64 }).ms
  expect(ms(completeGpu('Card', { ...rest, generation: 'Turing' }))).toBeGreaterThan(
    ms(completeGpu('Card', rest)),
  )
  expect(ms(completeGpu('Card', { ...rest, generation: 'Ada' }))).toBeLessThan(
    ms(completeGpu('Card', rest)),
  )
})

test('every problem of a GPU file at once, with its line', () => {
  const text = 'Mine:\n  memoryGiB: -1\n  bandwith: 500\n  peakTflops: { fp16: 80 }\n'
  const lines = (() => {
    try {
      return parseGpus(text, 'gpus.yaml').map((g) => g.name)
    } catch (error) {
      return (error as Error).message.split('\n')
    }
  })()
  expect(lines).toContainEqual('gpus.yaml:2: Mine.memoryGiB: expected a number above 0, got -1')
  expect(lines).toContainEqual(expect.stringMatching(/^gpus.yaml:3: Mine: unknown key 'bandwith'/))
  expect(lines).toContainEqual(
    expect.stringMatching(/^gpus.yaml:1: Mine.bandwidthGBs: expected a number/),
  )
  expect(lines).toContainEqual(
    expect.stringMatching(/^gpus.yaml:4: Mine.peakTflops.fp32: expected a number/),
  )
})

const base = {
  model_type: 'bert',
  hidden_size: 768,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  intermediate_size: 3072,
  vocab_size: 30522,
  max_position_embeddings: 512,
  hidden_act: 'gelu',
}

test("a model's own config.json", () => {
  const mine = parseArchitecture(JSON.stringify(base), 'config.json', 'mine')
  expect(mine.kind).toBe('encoder')
  expect(countParameters(mine)).toBe(countParameters(findArchitecture('bert')))
  const decoder = parseArchitecture(
    JSON.stringify({ ...base, model_type: 'llama', num_key_value_heads: 4 }),
    'config.json',
    'mine',
  )
  expect(decoder).toMatchObject({ kind: 'decoder', kvHeads: 4, headSize: 64 })
  const silent = {
    ...base,
    model_type: 'mistral',
    head_dim: null,
    num_local_experts: null,
    layer_types: null,
  }
  expect(parseArchitecture(JSON.stringify(silent), 'config.json', 'mine')).toMatchObject({
    kind: 'decoder',
    kvHeads: 12,
    headSize: 64,
  })
})

test('a mixture of experts: Mixtral by its names, Qwen by its own; what a token goes through must be said, and MLA is refused', () => {
  const heads = { num_attention_heads: 32, num_key_value_heads: 8 }
  const base = {
    hidden_size: 4096,
    num_hidden_layers: 32,
    ...heads,
    vocab_size: 32000,
    max_position_embeddings: 32768,
  }
  const read = (more: Record<string, unknown>) =>
    parseArchitecture(
      JSON.stringify({ ...base, model_type: 'mixtral', ...more }, null, 1),
      'config.json',
      'mine',
    ) as Decoder
  const mixtral = read({ intermediate_size: 14336, num_local_experts: 8, num_experts_per_tok: 2 })
  expect(mixtral.experts).toEqual({ count: 8, active: 2 })
  // As published: 46.7 billion.
  expect(countParameters(mixtral) / 1e9).toBeCloseTo(46.7, 1)
  const qwen = read({
    intermediate_size: 6144,
    moe_intermediate_size: 768,
    num_experts: 128,
    num_experts_per_tok: 8,
  })
  expect([qwen.intermediate, qwen.experts]).toEqual([768, { count: 128, active: 8 }])
  expect(countParameters(findArchitecture('qwen3-30b-a3b')) / 1e9).toBeCloseTo(30.5, 1)
  expect(() => read({ intermediate_size: 14336, num_local_experts: 8 })).toThrow(
    /num_experts_per_tok: expected the number of experts per token, at most 8/,
  )
  expect(() => read({ intermediate_size: 14336, kv_lora_rank: 512 })).toThrow(
    /config\.json:\d+.*MLA/,
  )
  expect(() => read({ intermediate_size: 14336, compress_ratios: [0, 4] })).toThrow(
    /config\.json:\d+.*MLA/,
  )
})

test('experts that every token goes through count, as DeepSeek and GLM name them', () => {
  // GLM-4.5-Air as published, 106 billion: one of its 46 layers is dense.
  const air = parseArchitecture(
    JSON.stringify({
      model_type: 'glm4_moe',
      ...{
        hidden_size: 4096,
        num_hidden_layers: 46,
        num_attention_heads: 96,
        num_key_value_heads: 8,
        head_dim: 128,
      },
      ...{
        vocab_size: 151552,
        max_position_embeddings: 131072,
        intermediate_size: 10944,
        moe_intermediate_size: 1408,
      },
      ...{
        n_routed_experts: 128,
        n_shared_experts: 1,
        num_experts_per_tok: 8,
        first_k_dense_replace: 1,
      },
    }),
    'config.json',
    'air',
  ) as Decoder
  expect(air.experts).toEqual({
    count: 128,
    active: 8,
    sharedIntermediate: 1408,
    denseLayers: 1,
    denseIntermediate: 10944,
  })
  expect(countParameters(air) / 106e9).toBeCloseTo(1, 1)
})

test('a model of texts and images is read by its language model; layers of other kinds than attention are refused', () => {
  const text = {
    hidden_size: 5376,
    num_hidden_layers: 62,
    num_attention_heads: 32,
    num_key_value_heads: 16,
    head_dim: 128,
  }
  const language = {
    ...text,
    model_type: 'gemma3_text',
    intermediate_size: 21504,
    vocab_size: 262208,
    max_position_embeddings: 131072,
  }
  const gemma = { model_type: 'gemma3', text_config: language }
  const read = (config: unknown) =>
    parseArchitecture(JSON.stringify(config, null, 1), 'config.json', 'mine') as Decoder
  expect(read(gemma)).toMatchObject({ kind: 'decoder', layers: 62, kvHeads: 16, headSize: 128 })
  expect(() => read({ text_config: { ...language, vocab_size: undefined } })).toThrow(
    /config\.json:2: text_config\.vocab_size/,
  )
  expect(() => read({ text_config: { ...language, max_position_embeddings: null } })).toThrow(
    /max_position_embeddings: expected the maximum number/,
  )
  const quantization_config = { quant_method: 'awq', bits: 4 }
  expect(
    [read(gemma), read({ ...gemma, quantization_config })].map(
      ({ quantizationMethod }) => quantizationMethod,
    ),
  ).toEqual([undefined, 'awq'])
  expect(read({ text_config: { ...language, quantization_config } }).quantizationMethod).toBe('awq')
  const layers = { ...language, layer_types: ['sliding_attention', 'full_attention'] }
  expect(read(layers).layers).toBe(62)
  expect(() => read({ ...layers, layer_types: ['linear_attention', 'full_attention'] })).toThrow(
    /layer_types: layers of linear_attention/,
  )
})

describe('layers that are not all alike', () => {
  const dimensions = {
    hidden_size: 4096,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    intermediate_size: 14336,
    vocab_size: 65536,
    max_position_embeddings: 262144,
  }
  const read = (more: Record<string, unknown>) =>
    parseArchitecture(
      JSON.stringify({ model_type: 'llama', ...dimensions, ...more }, null, 1),
      'config.json',
      'mine',
    ) as Decoder

  test.each([
    ['Qwen3-Next', { full_attention_interval: 4 }, 'linear attention'],
    ['Jamba', { attn_layer_period: 8, attn_layer_offset: 4, mamba_d_state: 16 }, 'hybrid model'],
    ['Bamba', { attn_layer_indices: [9, 18, 27] }, 'hybrid model'],
    ['MiniMax-Text-01', { attn_type_list: [0, 0, 1] }, 'hybrid model'],
    ['LFM2', { full_attn_idxs: [2, 5], conv_L_cache: 3 }, 'convolution layers'],
    ['Nemotron-H', { hybrid_override_pattern: 'M-M*-' }, 'state space layers'],
    ['Zamba 2', { layers_block_type: ['mamba', 'hybrid'] }, 'state space layers'],
    ['Falcon-H1', { mamba_d_ssm: 1536 }, 'state space layers'],
    ['RecurrentGemma', { block_types: ['recurrent', 'attention'] }, 'recurrent'],
    ['Kimi Linear', { linear_attn_config: { kda_layers: [1] } }, 'linear attention'],
    ['Granite 4', { layer_types: ['mamba', 'attention'] }, 'layers of mamba'],
    ['Nemotron-NAS', { block_configs: [{ attention: { no_op: true } }] }, 'different sizes'],
    ['Gemma 3n', { num_kv_shared_layers: 15 }, 'share the cache'],
  ])('%s is refused by the key that says so', (_, more, layers) => {
    expect(() => read(more)).toThrow(
      new RegExp(`config\\.json:\\d+: \\w+: .*${layers}.* not modelled`),
    )
  })

  test('a model whose every layer is attention is read, whatever its file names', () => {
    for (const more of [
      { full_attention_interval: 1 },
      { num_kv_shared_layers: 0, mamba_d_state: null, block_configs: [] },
      { layer_types: ['attention', 'sliding_attention', 'full_attention'] },
    ])
      expect(read(more).layers).toBe(32)
  })

  test.each([
    ['the first are dense', { first_k_dense_replace: 3 }, 3],
    ['each second has experts', { decoder_sparse_step: 2 }, 16],
    ['listed ones are dense', { mlp_only_layers: [0, 5] }, 2],
    ['Llama 4: each second, and of a width of their own', { interleave_moe_layer_step: 2 }, 16],
    ['DeepSeek: a frequency after the first', { first_k_dense_replace: 1, moe_layer_freq: 2 }, 17],
    ['a list of which have experts', { moe_layer_freq: [0, ...Array(31).fill(1)] }, 1],
    ['all have experts', { first_k_dense_replace: 0, decoder_sparse_step: 1 }, undefined],
  ])('experts in some layers only: %s', (_, more, denseLayers) => {
    const mixture = { num_experts: 16, num_experts_per_tok: 2, moe_intermediate_size: 1024 }
    const { experts } = read({ ...mixture, ...more })
    expect(experts?.denseLayers).toBe(denseLayers)
    if (denseLayers !== undefined) expect(experts?.denseIntermediate).toBe(14336)
  })

  test('dense layers count with their own width', () => {
    // Of 2 layers one is dense: 3·8·32 weights; the other has 4 experts of 3·8·16 and a router of 8·4.
    const small = {
      hidden_size: 8,
      num_hidden_layers: 2,
      num_attention_heads: 2,
      num_key_value_heads: 2,
    }
    const model = read({
      ...small,
      vocab_size: 10,
      intermediate_size: 32,
      moe_intermediate_size: 16,
      num_experts: 4,
      num_experts_per_tok: 1,
      first_k_dense_replace: 1,
    })
    const attentionAndNorms = 2 * (4 * 8 * 8 + 2 * 8)
    expect(countParameters(model)).toBe(2 * 10 * 8 + attentionAndNorms + 768 + 4 * 384 + 32)
  })
})

describe('files of models as they are published', () => {
  const llama = {
    hidden_size: 2048,
    num_hidden_layers: 24,
    num_attention_heads: 16,
    num_key_value_heads: 4,
    intermediate_size: 5632,
    vocab_size: 32000,
    max_position_embeddings: 8192,
  }
  const { num_key_value_heads: _, ...encoder } = llama
  const read = (config: unknown) =>
    parseArchitecture(JSON.stringify(config, null, 1), 'config.json', 'mine')

  test.each([
    ['ModernBERT', { ...encoder, model_type: 'modernbert' }, 'encoder'],
    [
      'GTE, of a type of its own',
      { ...encoder, model_type: 'new', architectures: ['NewModel'], type_vocab_size: 2 },
      'encoder',
    ],
    [
      'a classifier',
      {
        ...encoder,
        model_type: 'deberta-v2',
        architectures: ['DebertaV2ForSequenceClassification'],
      },
      'encoder',
    ],
    [
      'EuroBERT, with grouped heads',
      { ...llama, model_type: 'eurobert', architectures: ['EuroBertForMaskedLM'] },
      'encoder',
    ],
    [
      'a language model as a classifier',
      { ...llama, model_type: 'qwen3', architectures: ['Qwen3ForSequenceClassification'] },
      'decoder',
    ],
    [
      'a language model',
      { ...encoder, model_type: 'gpt_neox', architectures: ['GPTNeoXForCausalLM'] },
      'decoder',
    ],
  ])('%s', (_, config, kind) => expect(read(config).kind).toBe(kind))

  test.each([
    ['InternVL', { model_type: 'internvl_chat', llm_config: llama, vision_config: {} }],
    ['DeepSeek-VL', { language_config: { model_type: 'deepseek', ...llama } }],
    [
      'Qwen-Omni',
      { thinker_config: { text_config: { model_type: 'qwen2', ...llama }, audio_config: {} } },
    ],
  ])('%s is read by its language model', (_, config) =>
    expect(read(config)).toMatchObject({ kind: 'decoder', layers: 24, kvHeads: 4, headSize: 128 }),
  )

  test('a dimension that is missing within two others is named with its line', () =>
    expect(() =>
      read({ thinker_config: { text_config: { ...llama, vocab_size: 'many' } } }),
    ).toThrow(/config\.json:\d+: thinker_config\.text_config\.vocab_size: expected a whole number/))

  test.each([
    [
      'GPT-2',
      {
        model_type: 'gpt2',
        n_embd: 768,
        n_layer: 12,
        n_head: 12,
        n_inner: null,
        n_positions: 1024,
        vocab_size: 50257,
      },
      { layers: 12, hidden: 768, intermediate: 3072, kvHeads: 12 },
    ],
    [
      'DistilBERT',
      {
        model_type: 'distilbert',
        dim: 768,
        n_layers: 6,
        n_heads: 12,
        hidden_dim: 3072,
        vocab_size: 30522,
        max_position_embeddings: 512,
      },
      { kind: 'encoder', layers: 6, intermediate: 3072 },
    ],
    [
      'Falcon, whose heads share one',
      {
        model_type: 'falcon',
        hidden_size: 4544,
        num_hidden_layers: 32,
        num_attention_heads: 71,
        multi_query: true,
        new_decoder_architecture: false,
        vocab_size: 65024,
        max_position_embeddings: 2048,
      },
      { kvHeads: 1, headSize: 64, intermediate: 18176 },
    ],
    [
      'BigCode',
      {
        model_type: 'gpt_bigcode',
        n_embd: 6144,
        n_layer: 40,
        n_head: 48,
        n_inner: 24576,
        n_positions: 8192,
        multi_query: true,
        vocab_size: 49152,
      },
      { kvHeads: 1, layers: 40 },
    ],
  ])('%s by the names of its family', (_, config, dimensions) =>
    expect(read(config)).toMatchObject(dimensions),
  )

  test.each([
    [
      'BART',
      { ...encoder, model_type: 'bart', is_encoder_decoder: true },
      'is_encoder_decoder: an encoder and a decoder',
    ],
    [
      'T5',
      { model_type: 't5', d_model: 512, num_layers: 6, is_encoder_decoder: true },
      'is_encoder_decoder: an encoder and a decoder',
    ],
    [
      'Mllama',
      { text_config: { ...llama, cross_attention_layers: [3, 8] } },
      'cross_attention_layers: layers that attend to images',
    ],
    ['an adapter', { peft_type: 'LORA', r: 16 }, 'peft_type: an adapter has no dimensions'],
  ])('%s is refused by name', (_, config, why) => expect(() => read(config)).toThrow(why))

  test('weights of bitsandbytes without its name are quantised', () =>
    expect(read({ ...llama, quantization_config: { load_in_4bit: true } })).toMatchObject({
      quantizationMethod: 'bitsandbytes',
    }))
})

test('a missing dimension is named', () => {
  const { hidden_size, vocab_size, ...rest } = base
  expect([hidden_size, vocab_size]).toEqual([768, 30522])
  const parse = () => parseArchitecture(JSON.stringify(rest), 'config.json', 'mine')
  expect(parse).toThrow(/config.json:1: hidden_size: expected a whole number/)
  expect(parse).toThrow(/config.json:1: vocab_size: expected a whole number/)
  expect(() =>
    parseArchitecture(JSON.stringify({ ...base, num_attention_heads: 7 }), 'c.json', 'm'),
  ).toThrow(/add head_dim/)
})
