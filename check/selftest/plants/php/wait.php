<?php
// Keeps its worker for PLANT_US microseconds.
usleep((int) ($_SERVER['PLANT_US'] ?? getenv('PLANT_US')));
header('Content-Type: text/plain');
header('Content-Length: 5');
echo "done\n";
