/**
 * Writes a language model with random weights as a GGUF file: what serving costs does not depend on
 * what the weights say. Llama's architecture, matrices in F16, a vocabulary of the SentencePiece
 * kind with byte tokens; the same bytes for the same dimensions and seed.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

interface Dimensions {
  readonly layers: number
  /** Width of the hidden state; a multiple of 32 × heads. */
  readonly width: number
  readonly heads: number
  /** Heads of keys and values, a divisor of `heads`. */
  readonly kvHeads: number
  readonly feedForward: number
  /** Tokens of the vocabulary, 1000 or more. */
  readonly vocabulary: number
  readonly contextLength: number
  readonly seed: number
}

/** Some 80 MB. */
const usual: Dimensions = {
  layers: 8,
  width: 512,
  heads: 8,
  kvHeads: 2,
  feedForward: 1408,
  vocabulary: 32_000,
  contextLength: 4096,
  seed: 0,
}

/** One million weights, some 2 MB: for tests. */
export const tiny: Dimensions = {
  layers: 2,
  width: 128,
  heads: 4,
  kvHeads: 2,
  feedForward: 384,
  vocabulary: 4000,
  contextLength: 2048,
  seed: 0,
}

/** Types of metadata and of tensors, by their numbers in the format. */
const types = { u32: 4, i32: 5, f32: 6, bool: 7, text: 8, list: 9 } as const
const [f32Tensor, f16Tensor] = [0, 1]
const alignment = 32

interface TensorPlan {
  readonly name: string
  readonly shape: readonly number[]
  readonly type: 0 | 1
}

/**
 * Writes the model.
 * @returns its bytes
 * @throws what the file system says
 */
export function writeRandomModel(path: string, dimensions: Partial<Dimensions> = {}): number {
  const all = { ...usual, ...dimensions }
  const tensors = tensorsOf(all)
  const header = headerOf(all, tensors)
  const file = openSync(path, 'w')
  try {
    let bytes = writeSync(file, header)
    const draw = generator(all.seed)
    for (const tensor of tensors) bytes += writeSync(file, weightsOf(tensor, all.width, draw))
    return bytes
  } finally {
    closeSync(file)
  }
}

function tensorsOf({
  layers,
  width,
  heads,
  kvHeads,
  feedForward,
  vocabulary,
}: Dimensions): TensorPlan[] {
  const kv = (width / heads) * kvHeads
  const matrix = (name: string, ...shape: readonly [number, number]): TensorPlan => ({
    name: `${name}.weight`,
    shape,
    type: f16Tensor as 1,
  })
  const norm = (name: string): TensorPlan => ({
    name: `${name}.weight`,
    shape: [width],
    type: f32Tensor as 0,
  })
  const layer = (n: number) => [
    norm(`blk.${n}.attn_norm`),
    matrix(`blk.${n}.attn_q`, width, width),
    matrix(`blk.${n}.attn_k`, width, kv),
    matrix(`blk.${n}.attn_v`, width, kv),
    matrix(`blk.${n}.attn_output`, width, width),
    norm(`blk.${n}.ffn_norm`),
    matrix(`blk.${n}.ffn_gate`, width, feedForward),
    matrix(`blk.${n}.ffn_up`, width, feedForward),
    matrix(`blk.${n}.ffn_down`, feedForward, width),
  ]
  // Without a matrix for the output, it is that of the input.
  return [
    matrix('token_embd', width, vocabulary),
    norm('output_norm'),
    ...Array.from({ length: layers }, (_, n) => layer(n)).flat(),
  ]
}

const elements = ({ shape }: TensorPlan) => shape.reduce((product, length) => product * length, 1)
const padded = (bytes: number) => Math.ceil(bytes / alignment) * alignment
const sizeOf = (tensor: TensorPlan) => elements(tensor) * (tensor.type === f32Tensor ? 4 : 2)

function headerOf(all: Dimensions, tensors: readonly TensorPlan[]): Buffer {
  const { layers, width, heads, kvHeads, feedForward, vocabulary, contextLength } = all
  const { tokens, scores, kinds } = vocabularyOf(vocabulary)
  const metadata = [
    entry('general.architecture', types.text, text('llama')),
    entry('general.name', types.text, text('random')),
    entry('general.alignment', types.u32, u32(alignment)),
    entry('general.file_type', types.u32, u32(1)),
    entry('llama.context_length', types.u32, u32(contextLength)),
    entry('llama.embedding_length', types.u32, u32(width)),
    entry('llama.block_count', types.u32, u32(layers)),
    entry('llama.feed_forward_length', types.u32, u32(feedForward)),
    entry('llama.attention.head_count', types.u32, u32(heads)),
    entry('llama.attention.head_count_kv', types.u32, u32(kvHeads)),
    entry('llama.attention.layer_norm_rms_epsilon', types.f32, f32(1e-5)),
    entry('llama.rope.dimension_count', types.u32, u32(width / heads)),
    entry('llama.vocab_size', types.u32, u32(vocabulary)),
    entry('tokenizer.ggml.model', types.text, text('llama')),
    entry('tokenizer.ggml.tokens', types.list, list(types.text, tokens.map(text))),
    entry('tokenizer.ggml.scores', types.list, list(types.f32, scores.map(f32))),
    entry('tokenizer.ggml.token_type', types.list, list(types.i32, kinds.map(u32))),
    entry('tokenizer.ggml.unknown_token_id', types.u32, u32(0)),
    entry('tokenizer.ggml.bos_token_id', types.u32, u32(1)),
    entry('tokenizer.ggml.eos_token_id', types.u32, u32(2)),
    entry('tokenizer.ggml.add_bos_token', types.bool, Buffer.from([1])),
    entry('tokenizer.ggml.add_eos_token', types.bool, Buffer.from([0])),
  ]
  let offset = 0
  const infos = tensors.map((tensor) => {
    const { name, shape, type } = tensor
    const info = Buffer.concat([
      text(name),
      u32(shape.length),
      ...shape.map(u64),
      u32(type),
      u64(offset),
    ])
    offset += padded(sizeOf(tensor))
    return info
  })
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(tensors.length),
    u64(metadata.length),
    ...metadata,
    ...infos,
  ])
  return Buffer.concat([head, Buffer.alloc(padded(head.length) - head.length)])
}

/**
 * Control tokens, the 256 bytes, then letters and all groups of two and three of them, bare and at
 * the start of a word: English splits into threes.
 */
function vocabularyOf(size: number) {
  const letters = [...'etaoinshrdlcumwfgypbvkxjqz']
  const grown = (pieces: readonly string[]) =>
    pieces.flatMap((piece) => letters.map((letter) => piece + letter))
  const starts = letters.map((letter) => `▁${letter}`)
  const pairs = grown(letters)
  const pieces = [
    '▁',
    ...letters,
    ...[...'.,:;!?0123456789'],
    ...starts,
    ...pairs,
    ...grown(starts),
    ...grown(grown(starts)),
    ...grown(pairs),
  ]
  const bytes = Array.from(
    { length: 256 },
    (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
  )
  const fixed = ['<unk>', '<s>', '</s>', ...bytes]
  const tokens = [...fixed, ...pieces.slice(0, size - fixed.length)]
  if (tokens.length < size)
    throw new Error(`a vocabulary of ${size} tokens; at most ${tokens.length} are made`)
  const [normal, unknown, control, byte] = [1, 2, 3, 6]
  const kinds = tokens.map((_, i) =>
    i === 0 ? unknown : i < 3 ? control : i < fixed.length ? byte : normal,
  )
  // Longer pieces are merged first.
  const scores = tokens.map((token, i) =>
    i < fixed.length ? 0 : [...token].length * 1000 - i / 100,
  )
  return { tokens, scores, kinds }
}

/** Norms are 1; matrices are drawn evenly, as wide as keeps a state's size from layer to layer. */
function weightsOf(tensor: TensorPlan, width: number, draw: () => number): Buffer {
  const bytes = Buffer.alloc(padded(sizeOf(tensor)))
  const count = elements(tensor)
  if (tensor.type === f32Tensor) {
    for (let i = 0; i < count; i++) bytes.writeFloatLE(1, 4 * i)
    return bytes
  }
  const half = Math.sqrt(3 / width)
  const table = Uint16Array.from({ length: 1024 }, (_, i) =>
    toHalf(half * ((2 * i + 1) / 1024 - 1)),
  )
  const values = new Uint16Array(bytes.buffer, bytes.byteOffset, count)
  for (let i = 0; i < count; i++) values[i] = table[draw() >>> 22]!
  return bytes
}

/**
 * A number of less than 1 in size as 16 bits, rounded down; what is too small for a normal number
 * is 0.
 */
function toHalf(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15
  return ((bits >>> 16) & 0x8000) | (exponent <= 0 ? 0 : (exponent << 10) | ((bits >>> 13) & 0x3ff))
}

/** 32 random bits at a time (mulberry32). */
function generator(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const u64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const f32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}
const text = (value: string) => {
  const bytes = Buffer.from(value)
  return Buffer.concat([u64(bytes.length), bytes])
}
const list = (type: number, values: readonly Buffer[]) =>
  Buffer.concat([u32(type), u64(values.length), ...values])
const entry = (key: string, type: number, value: Buffer) =>
  Buffer.concat([text(key), u32(type), value])

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { tiny: { type: 'boolean', default: false }, seed: { type: 'string', default: '0' } },
  })
  const [path] = positionals
  if (path === undefined || !/^\d+$/.test(values.seed)) {
    process.stderr.write(
      'npm run model:random -- OUT.gguf [--tiny] [--seed 0]: writes a language model with random weights\n',
    )
    process.exit(2)
  }
  const bytes = writeRandomModel(path, { ...(values.tiny && tiny), seed: Number(values.seed) })
  process.stdout.write(`${path}: ${(bytes / 1e6).toFixed(1)} MB\n`)
}
