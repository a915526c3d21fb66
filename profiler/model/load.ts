/** A request pattern. */
export type Load =
  | {
      readonly kind: 'closed'
      readonly connections: number
      readonly durationS: number
      /** Opens connections that stay open for the open load after it. */
      readonly forOpen?: true
    }
  | {
      readonly kind: 'open'
      readonly rateRps: number
      readonly arrivals: Arrivals
      readonly durationS: number
      readonly seed: number
      /**
       * Ends the window early once more than this many requests failed or exceeded `overMs`, as its
       * outcome is then certain.
       */
      readonly cut?: { readonly overMs: number; readonly requests: number }
    }

export type ClosedLoad = Extract<Load, { kind: 'closed' }>
export type OpenLoad = Extract<Load, { kind: 'open' }>

export type Arrivals =
  | { readonly kind: 'constant' }
  | { readonly kind: 'poisson' }
  | { readonly kind: 'gamma'; readonly cv: number }
  | { readonly kind: 'on-off'; readonly onS: number; readonly offS: number }
  /**
   * Poisson with a rate that rises or falls linearly over the window; `rateRps` is the mean rate.
   */
  | { readonly kind: 'sweep'; readonly fromRps: number; readonly toRps: number }
  /**
   * `readAs`: unit of the times in the file, and how it is known: 'ms (Mooncake: whole numbers)'.
   */
  | { readonly kind: 'trace'; readonly atMs: readonly number[]; readonly readAs?: string }

/** Purpose of a load, shown as progress. */
export type Phase = 'warm-up' | 'unloaded' | 'saturation' | 'search' | 'curve' | 'confirm'
