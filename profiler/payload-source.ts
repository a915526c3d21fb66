/** What requests are made of, as a user says it. */
import type { PromptSpec } from './prompt-spec.ts'

/**
 * How many are made where no count is given. A prompt that is sent again is found in a language
 * model server's cache, and would make it look faster than it is.
 */
export const usualCount = { bodies: 64, prompts: 2048 } as const

/** Where request bodies come from. */
export type PayloadSource =
  | ItemSource
  /**
   * JSON Lines: one body a line. With a content type: the whole file is every request's body, as it
   * is.
   */
  | {
      readonly kind: 'file'
      readonly path: string
      readonly contentType?: string
      readonly order?: PayloadOrder
    }

/** Sources that requests are made from, item by item, as the model's metadata asks. */
export type ItemSource = (
  | {
      readonly kind: 'generated'
      readonly count?: number
      /** Of language models. */
      readonly prompts?: PromptSpec
      /**
       * Prompts that are longer than a server's context are sent as they are, and it refuses them.
       * Absent: they are cut to what it takes.
       */
      readonly asDrawn?: boolean
    }
  /** A file, one text a line. All are used where no count is given. */
  | { readonly kind: 'texts'; readonly path: string; readonly count?: number }
  /** A folder of JPEG and PNG files. As many as there are, at most 64, where no count is given. */
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
  /** Each of `items` with the share that its weight has of all. */
  | {
      readonly kind: 'weighted'
      readonly items: readonly number[]
      readonly weights: readonly number[]
    }

/**
 * What a trace says of its requests beside their times. Every load takes bodies in this order, over
 * and over.
 */
export interface PayloadOrder {
  /** The trace, for errors. */
  readonly file: string
  /** Its line of each request, from 1. Length n. */
  readonly lines: readonly number[]
  /** Items of each request, in place of the source's. Length n. */
  readonly items?: readonly number[]
  /** Number of each request's body, from 0. Length n. */
  readonly bodies?: readonly number[]
}
