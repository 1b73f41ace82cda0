/* The objectives' names and texts (device/objectives/objectives.def). */
#include "device/objective.h"

const fopo_objective fopo_objective_rows[FOPO_OBJECTIVE_ROWS] = {
#define FOPO_ROW(ID, name, title, larger, targets, text) {#name, title, text, larger, targets},
    FOPO_OBJECTIVES(FOPO_ROW)
#undef FOPO_ROW
};
