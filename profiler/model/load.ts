/** A request pattern. */
export type Load =
  | {
      readonly kind: 'closed'
      readonly connections: number
      readonly durationS: number
      /** Over the connections that open load uses, which stay open for it. */
      readonly forOpen?: true
    }
  | {
      readonly kind: 'open'
      readonly rateRps: number
      readonly arrivals: Arrivals
      readonly durationS: number
      readonly seed: number
      /**
       * Ends the window early once more than this many requests failed or took longer than
       * `overMs`: its outcome is then certain.
       */
      readonly cut?: { readonly overMs: number; readonly requests: number }
    }

export type Arrivals =
  | { readonly kind: 'constant' }
  | { readonly kind: 'poisson' }
  | { readonly kind: 'gamma'; readonly cv: number }
  | { readonly kind: 'on-off'; readonly onS: number; readonly offS: number }
  /**
   * Poisson, its rate rising or falling evenly over the window; the load's rateRps is the mean of
   * both.
   */
  | { readonly kind: 'sweep'; readonly fromRps: number; readonly toRps: number }
  /** `readAs`: the unit of the times in the file, and where it comes from. */
  | { readonly kind: 'trace'; readonly atMs: readonly number[]; readonly readAs?: string }

/** What a load is for: shown with its progress. */
export type Phase = 'warm-up' | 'idle' | 'saturation' | 'search' | 'curve' | 'confirm'
