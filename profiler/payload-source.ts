/** Payload of requests, as the user configures it. */
import type { PromptSpec } from './prompt-spec.ts'

/**
 * Default number of request bodies. Prompts need many more: a repeated prompt is served from the
 * prefix cache of a language model server, which would look faster than it is.
 */
export const defaultCounts = { bodies: 64, prompts: 2048 } as const

/** Where request bodies come from. */
export type PayloadSource =
  | ItemSource
  /**
   * JSON Lines with one body per line. With a content type, the whole file is the body of every
   * request.
   */
  | {
      readonly kind: 'file'
      readonly path: string
      readonly contentType?: string
      readonly order?: PayloadOrder
    }

/**
 * Sources of items (texts, images, tensor values), from which bodies are built as the metadata of
 * the model requires.
 */
export type ItemSource = (
  | {
      readonly kind: 'generated'
      readonly count?: number
      /** For language models. */
      readonly prompts?: PromptSpec
      /**
       * Prompts longer than the server's context are sent unchanged, and the server refuses them.
       * Absent: they are cut to its context.
       */
      readonly keepOverlongPrompts?: boolean
    }
  /** A file with one text per line. Default count: enough bodies to use all texts. */
  | { readonly kind: 'texts'; readonly path: string; readonly count?: number }
  /** A folder of JPEG and PNG files. Default count: one body per file, at most 64. */
  | { readonly kind: 'images'; readonly path: string; readonly count?: number }
) & {
  readonly seed: number
  /** Items of one request, default 1. */
  readonly items?: ItemCounts
  readonly order?: PayloadOrder
}

/** Numbers of items in one request. */
export type ItemCounts =
  | { readonly kind: 'fixed'; readonly items: number }
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  /** exp of a normal with mean ln(median) and deviation sigma. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number }
  /** Draws from `items` with probabilities proportional to `weights`. */
  | {
      readonly kind: 'weighted'
      readonly items: readonly number[]
      readonly weights: readonly number[]
    }

/**
 * What a trace records about its n requests besides their times. Every load sends bodies in this
 * order, starting again at the end.
 */
export interface PayloadOrder {
  /** Path of the trace, for error messages. */
  readonly file: string
  /** Line of each request in the trace, from 1. Length n. */
  readonly lines: readonly number[]
  /** Items of each request, instead of the source's `items`. Length n. */
  readonly items?: readonly number[]
  /** Index of each request's body in the payload, from 0. Length n. */
  readonly bodies?: readonly number[]
}
