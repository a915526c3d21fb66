/** Small tokenizers as `tokenizer.json` has them, of the two kinds that language models use. */
const common = { version: '1.0', truncation: null, padding: null }
const letters = [...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ']

/**
 * Byte-level BPE (GPT-2, Llama 3, Qwen): Ġ is a space. It knows some pairs, and no word whole but
 * 'the'.
 */
export function byteLevelTokenizer(): object {
  const merges = [
    ['t', 'h'],
    ['th', 'e'],
    ['Ġ', 'the'],
    ['i', 'n'],
    ['e', 'r'],
  ] as const
  const pieces = [
    '<|begin|>',
    'Ġ',
    ...letters,
    ...".,'-0123456789",
    ...merges.map((pair) => pair.join('')),
  ]
  const split = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true }
  return {
    ...common,
    added_tokens: [
      {
        id: 0,
        content: '<|begin|>',
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
      },
    ],
    normalizer: null,
    pre_tokenizer: split,
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: modelOf(pieces, merges, false),
  }
}

/**
 * SentencePiece's BPE (Llama 2, Mistral): ▁ is a space, one stands before the text, and characters
 * that are unknown fall back to bytes.
 */
export function sentencePieceTokenizer(): object {
  const merges = [
    ['▁', 't'],
    ['h', 'e'],
    ['▁t', 'he'],
    ['o', 'n'],
  ] as const
  const bytes = Array.from(
    { length: 256 },
    (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`,
  )
  return {
    ...common,
    added_tokens: [
      {
        id: 0,
        content: '<unk>',
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
      },
    ],
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'Prepend', prepend: '▁' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      ],
    },
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
      ],
    },
    model: {
      ...modelOf(
        ['<unk>', ...bytes, '▁', ...letters, ...merges.map((pair) => pair.join(''))],
        merges,
        true,
      ),
      unk_token: '<unk>',
      fuse_unk: true,
    },
  }
}

const modelOf = (
  pieces: readonly string[],
  merges: readonly (readonly [string, string])[],
  byteFallback: boolean,
) => ({
  type: 'BPE',
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: byteFallback,
  vocab: Object.fromEntries([...new Set(pieces)].map((piece, id) => [piece, id])),
  merges: merges.map((pair) => pair.join(' ')),
})
