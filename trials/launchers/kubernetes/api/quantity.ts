/** Quantities of the Kubernetes API. */

const suffixFactors: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** '500m' → 0.5, '4Gi' → 4294967296; NaN for any other text. */
export function parseQuantity(text: string): number {
  const [, number = '', suffix = ''] = /^([0-9.eE+-]+?)([a-zA-Z]{0,2})$/.exec(text.trim()) ?? []
  return number === '' ? Number.NaN : Number(number) * (suffixFactors[suffix] ?? Number.NaN)
}
