/**
 * Stands where a deployment's weights belong while nobody has named them. The built-in predictor
 * refuses to start with it, and says why.
 */
export const weightsToFill = 'REPLACE_WITH_YOUR_MODEL'
