/**
 * Converts a request's payload into an item of a batch, on CPU workers. Implemented in
 * `preprocess/text-input.ts` and `preprocess/image-input.ts`.
 */

/** Token ids and mask of one text, both padded with zeros to the configured length. */
export interface EncodedText {
  readonly inputIds: Int32Array
  readonly attentionMask: Int32Array
}

export interface Tokenizer {
  /** [CLS] tokens [SEP], cut and padded to `length`. */
  encode(text: string, length: number): EncodedText
}

/**
 * `decodeImage` of `preprocess/image.ts`: decodes JPEG or PNG, resizes and normalises.
 * Resolves with height×width×3 values, row-major (NHWC without N). Rejects when the bytes are no
 * image. Must use one thread.
 */
export type DecodeImage = (
  bytes: Uint8Array,
  height: number,
  width: number,
) => Promise<Float32Array>
